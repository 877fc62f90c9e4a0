// SPDX-License-Identifier: Apache-2.0
// The wire port of one rank: makes and accepts the connections of its wires.
#ifndef KEEL_COLLECTIVES_TRANSPORTS_TCP_WIRE_HUB_H_
#define KEEL_COLLECTIVES_TRANSPORTS_TCP_WIRE_HUB_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>

#include "base/ipc/file_descriptor.h"
#include "collectives/bootstrap/host_bootstrap.h"
#include "collectives/bootstrap/host_listener.h"
#include "collectives/bootstrap/host_secret.h"
#include "collectives/bootstrap/tcp_socket.h"
#include "core/deadline.h"
#include "core/status.h"

namespace keel {

class TcpDialog;
class HubWires;

// The higher of two ranks connects. A connection that arrives before this rank has opened the wires
// of the communicator waits here. Thread-safe.
class WireHub : public std::enable_shared_from_this<WireHub> {
 public:
  // Listens at |bind|. Peers are asked to wait until set_table().
  static Status open(const SocketAddress& bind, const HostSecret& secret, uint32_t rank,
                     std::shared_ptr<WireHub>* out_hub);
  WireHub(HostSecret secret, uint32_t rank) : secret_(std::move(secret)), rank_(rank) {}
  ~WireHub();

  const SocketAddress& address() const { return address_; }
  // The interface that has address(). Set before set_table().
  void set_interface(ChosenInterface interface) { interface_ = std::move(interface); }
  const ChosenInterface& interface() const { return interface_; }
  uint32_t rank() const { return rank_; }
  void set_table(std::shared_ptr<const HostTable> table);
  const HostTable& table() const { return *table_; }

  // Connects |lane| of the communicator |context| to the lower rank |peer|. Blocks for kHandshakeNs
  // at most until the peer's port accepts, and then until |deadline| for the answer: a stopped
  // process has not ended. |cancelled| ends the wait.
  Status connect(uint32_t peer, uint32_t lane, uint64_t context, const Deadline& deadline,
                 const std::atomic<bool>& cancelled, FileDescriptor* out_socket);
  // Serves the job in place of an ended server: |on_rank|, on the service thread, gets the
  // connection of each rank that asks this port for a server.
  using OnRank = std::function<void(uint32_t rank, FileDescriptor socket)>;
  void serve(OnRank on_rank);
  // Connects to the server on |peer|, or on this rank. KEEL_RANK_FAILED when no process listens
  // there or the host does not answer: the peer has ended. KEEL_UNAVAILABLE when a later attempt
  // may succeed: the peer does not serve yet. KEEL_FAILED_PRECONDITION when the peer has gone on
  // from |context| without this rank. |out_socket| NULL: KEEL_OK when a process listens there.
  Status connect_server(uint32_t peer, uint64_t context, const Deadline& deadline,
                        FileDescriptor* out_socket);
  // Asks |peer| whether it takes part in the communicator |context| of this job. One attempt, of
  // kHandshakeNs at most. A failure says that this rank could not ask.
  enum class Presence {
    kPresent,  // a thread of the peer's process has answered
    kGone,     // the process has ended, has left the job, or has finished with |context|
    kSilent,   // the process accepts the connection, and does not answer: it is stopped
    kUnknown   // the peer is joining, its process is ending, or its port is under a flood
  };
  Status ask_presence(uint32_t peer, uint64_t context, const Deadline& deadline,
                      Presence* out_presence);
  // Finishes with the communicator |context|: ask_presence() of a peer then returns kGone.
  // |refusal|: the answer to a peer that asks this rank to serve |context|.
  void finish(uint64_t context, const Status& refusal);
  // Calls |on_notice|, on the service thread, with each notice that a peer sends to this port.
  using OnNotice = std::function<void(const Notice& notice)>;
  void set_on_notice(OnNotice on_notice);
  // This rank's opening to |peer|, outside the wires.
  Opening opening_to(uint32_t peer, Opening::Purpose purpose, uint64_t context) const;
  const HostSecret& secret() const { return secret_; }

  // KEEL_ALREADY_EXISTS when |context| has wires.
  Status add(uint64_t context, HubWires* wires);
  // No effect unless |wires| are the context's.
  void remove(uint64_t context, const HubWires* wires);
  // Cancels all wires, now and later, with |why|. The first failure stays.
  void fail(const Status& why);
  // Closes the port. No callback runs after the return.
  void close();

 private:
  using Key = std::tuple<uint64_t, uint32_t, uint32_t>;  // context, peer, lane

  // |limit|: for the port to accept. |*out_may_pass|: whether a later attempt may succeed.
  Status try_connect(const HostRank& other, uint32_t lane, uint64_t context,
                     const std::atomic<bool>& cancelled, const Deadline& limit,
                     const Deadline& deadline, FileDescriptor* out_socket, bool* out_may_pass);
  Status greet(TcpDialog& dialog, Opening opening, const Deadline& deadline);
  Status admit(const Opening& opening);
  void on_peer(const Opening& opening, FileDescriptor socket);
  void await_notice(FileDescriptor socket);
  void drop_notice(uint64_t number);

  const HostSecret secret_;
  const uint32_t rank_;
  SocketAddress address_;
  ChosenInterface interface_;
  uint32_t silence_ = 0;
  std::shared_ptr<HostListener> listener_;
  std::mutex mutex_;
  std::shared_ptr<const HostTable> table_;  // NULL until set_table(), then constant
  Status failure_;
  std::map<uint64_t, HubWires*> wires_;
  std::map<Key, FileDescriptor> early_;
  OnRank on_rank_;  // while this rank serves
  OnNotice on_notice_;
  uint64_t next_notice_ = 1;
  std::map<uint64_t, std::shared_ptr<TcpChannel>> notices_;  // until their notice is handled
  std::map<uint64_t, Status> finished_;                      // by context; see finish()
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_TRANSPORTS_TCP_WIRE_HUB_H_
