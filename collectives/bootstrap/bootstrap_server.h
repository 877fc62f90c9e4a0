// SPDX-License-Identifier: Apache-2.0
// The bootstrap server: accepts ranks and answers all of them when the last has arrived.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_BOOTSTRAP_SERVER_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_BOOTSTRAP_SERVER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "collectives/bootstrap/bootstrap_address.h"
#include "collectives/bootstrap/identity.h"
#include "collectives/bootstrap/messages.h"
#include "collectives/bootstrap/rendezvous.h"
#include "collectives/bootstrap/unix_socket.h"
#include "core/status.h"

namespace keel {

// Lives on the service thread from start() on, owned by the callbacks it registers there, and ends
// after it has answered every rank. A misbehaving peer is only refused: a silent connection closes
// after kHelloLimitNs, and an arrived rank is bound to its first hello.
class BootstrapServer : public std::enable_shared_from_this<BootstrapServer> {
 public:
  static Status start(const BootstrapAddress& place, SegmentFactory factory);

  BootstrapServer(BootstrapAddress place, SegmentFactory factory)
      : place_(std::move(place)), factory_(factory) {}

 private:
  struct Connection {
    int socket = -1;
    Peer peer;
    bool has_come = false;
    uint32_t rank = 0;
  };
  struct Member {
    uint64_t connection = 0;
    PeerInfo peer_info;
  };

  void on_peer(FileDescriptor socket, const Peer& peer);
  void on_event(uint64_t id, uint32_t events);
  Status on_hello(uint64_t id, Connection& connection, ByteView bytes);
  Status check_place(const Hello& hello) const;
  static Status check_namespace(const Hello& hello, const Peer& peer);
  void on_word(uint64_t id, const Connection& connection);
  void leave(uint64_t id, const Status& answer);
  void forget(uint64_t id);
  void complete();
  Status tell_everybody();
  void send_strangers_away();
  void fail(const Status& status);
  void stop_listening_if_all_know();
  std::string absent_ranks() const;

  const BootstrapAddress place_;
  const SegmentFactory factory_;
  uint64_t listener_ = 0;
  uint32_t world_ = 0;       // 0 until the first rank arrives
  uint32_t first_rank_ = 0;  // the rank that set |world_|
  std::map<uint64_t, Connection> connections_;
  std::map<uint32_t, Member> members_;
  std::set<uint32_t> gave_up_;   // arrived, then left at their deadlines
  std::set<uint32_t> answered_;  // have received |failure_|
  Status failure_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_BOOTSTRAP_SERVER_H_
