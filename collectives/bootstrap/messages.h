// SPDX-License-Identifier: Apache-2.0
// Wire format of the rendezvous and of the descriptor exchange.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_MESSAGES_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_MESSAGES_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collectives/bootstrap/identity.h"
#include "core/status.h"

namespace keel {

// Every message begins with a magic number, a version, a kind and its size, in host byte order,
// since no message leaves the host. Parsers trust no input: KEEL_DATA_LOSS, with the reason, for
// malformed bytes; KEEL_UNSUPPORTED for another version. Writing an accepted message again yields
// the same bytes.
using Bytes = std::vector<uint8_t>;
using ByteView = std::span<const uint8_t>;

// Requests the object |id|.
Bytes write_request(const ObjectId& id);
Status parse_request(ByteView bytes, ObjectId* out_id);

// Asks the server to hold the connection until either process ends or execs. The server does not
// answer.
Bytes write_hold();
Status parse_hold(ByteView bytes);

// Announces a rank's arrival.
struct Hello {
  uint32_t world = 0;
  PeerInfo self;
  uint64_t pid_namespace = 0;  // namespace_number("pid")
};
Bytes write_hello(const Hello& hello);
Status parse_hello(ByteView bytes, Hello* out_hello);

// Sent by a rank that leaves at its deadline: asks which ranks are missing.
Bytes write_question();
Status parse_question(ByteView bytes);

// The |status| that a request or a hello resulted in. Text beyond kMaxAnswerText bytes is cut.
inline constexpr uint32_t kMaxAnswerText = 900;
Bytes write_answer(const Status& status);
// Returns whether |bytes| are an answer, and the answer in |*out_status|.
Status parse_answer(ByteView bytes, Status* out_status);

// Peer info of all ranks, in rank order; up to kMaxRosterBytes.
Bytes write_roster(const std::vector<PeerInfo>& peer_infos);
Status parse_roster(ByteView bytes, std::vector<PeerInfo>* out_peer_infos);
inline constexpr uint64_t kMaxRosterBytes = uint64_t{kMaxWorld} * 192 + 64;

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_MESSAGES_H_
