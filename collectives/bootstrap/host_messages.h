// SPDX-License-Identifier: Apache-2.0
// Messages between hosts: handshake, arrival of a rank, table of all ranks, notices.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_HOST_MESSAGES_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_HOST_MESSAGES_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "collectives/bootstrap/host_bootstrap.h"
#include "collectives/bootstrap/identity.h"
#include "collectives/bootstrap/messages.h"
#include "core/status.h"

namespace keel {

// The rules of messages.h hold: parsers trust no input, and an accepted message is written as it
// was read.

using Nonce = std::array<uint8_t, 32>;
using Mac = std::array<uint8_t, 32>;

// First message of a connection, by the process that connects.
struct Opening {
  // kPresence asks whether the rank takes part in a communicator still, and ends with the answer.
  // kNotice: one notice follows, of a failure that no server could tell.
  enum class Purpose : uint8_t { kServer = 1, kWire = 2, kPresence = 3, kNotice = 4 };
  Purpose purpose = Purpose::kServer;
  ProcessToken job;      // of the id; of the table for a wire
  uint64_t epoch = 0;    // of a wire
  uint64_t context = 0;  // the communicator, where |purpose| is of one
  uint32_t from = 0;     // rank that connects
  uint32_t to = 0;       // rank that is connected to, of a wire
  uint32_t lane = 0;     // of a wire
  std::string address;   // that was connected to
  Nonce nonce = {};
  bool operator==(const Opening&) const = default;
};
Bytes write_opening(const Opening& opening);
Status parse_opening(ByteView bytes, Opening* out_opening);
inline constexpr uint32_t kMaxAddress = 80;
// Longest message before a peer is authenticated.
inline constexpr size_t kMaxStrangerBytes = 1024;

// Answer to an opening: the acceptor's nonce and proof.
struct Challenge {
  Nonce nonce = {};
  Mac proof = {};
};
Bytes write_challenge(const Challenge& challenge);
Status parse_challenge(ByteView bytes, Challenge* out_challenge);

// The connecting process's proof. The acceptor then sends an answer (messages.h).
Bytes write_proof(const Mac& proof);
Status parse_proof(ByteView bytes, Mac* out_proof);

// Arrival of a rank at the server.
struct HostHello {
  uint32_t world = 0;
  std::string version;  // of Keel
  HostRank self;
};
Bytes write_host_hello(const HostHello& hello);
Status parse_host_hello(ByteView bytes, HostHello* out_hello);
inline constexpr size_t kMaxHelloBytes = 4096;
inline constexpr uint32_t kMaxVersion = 32;

// |server|: the process that serves.
Bytes write_host_table(const HostTable& table, const ProcessToken& server);
Status parse_host_table(ByteView bytes, HostTable* out_table, ProcessToken* out_server);
inline constexpr uint64_t kMaxHostTableBytes = uint64_t{kMaxWorld} * kMaxHelloBytes + 64;

// Between the server and a rank after the table.
struct Notice {
  enum class Kind : uint8_t {
    kAlive = 1,  // says nothing; an unacknowledged one lets the kernel judge the peer silent
    kAbort,      // to the server: |status| is to fail the job; from it: the job has failed
    kLost,       // to the server: the wire to |rank| failed with |status|
    kFailed,     // from the server: |rank| has failed with |status|
    kLeft,       // to the server: the sender leaves in order; from it: |rank| has left
    kRegroup,    // from the server: the receiver cannot go on, for the reason |status|
    kReady       // to the server: the sender can begin; from it: so can all, which is final
  };
  Kind kind = Kind::kAlive;
  uint32_t rank = 0;
  Status status;
};
Bytes write_notice(const Notice& notice);
Status parse_notice(ByteView bytes, Notice* out_notice);
inline constexpr size_t kMaxNoticeBytes = 1024;

// To the server: the sender wants to go on with the ranks that are left of a communicator, or no
// longer does so.
struct RegroupAsk {
  uint64_t context = 0;           // the communicator
  uint32_t position = 0;          // the sender's rank in the communicator
  int64_t absent_ns = 0;          // ranks that do not ask within this time are failed; 0: never
  bool withdraws = false;         // at its deadline
  std::vector<uint32_t> members;  // ranks in the job of the communicator's ranks, ascending
};
Bytes write_regroup_ask(const RegroupAsk& ask);
Status parse_regroup_ask(ByteView bytes, RegroupAsk* out_ask);

// From the server: the rendezvous of the ranks that are left, and the receiver's place there.
struct Regroup {
  std::string id;
  uint32_t rank = 0;
  std::vector<uint32_t> left;  // old ranks in the communicator of those that are left, ascending
};
Bytes write_regroup(const Regroup& regroup);
Status parse_regroup(ByteView bytes, Regroup* out_regroup);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_HOST_MESSAGES_H_
