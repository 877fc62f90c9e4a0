// SPDX-License-Identifier: Apache-2.0
// The server of a job on several hosts: lets the ranks meet, then announces failed ranks to all.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_HOST_SERVER_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_HOST_SERVER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "collectives/bootstrap/host_listener.h"
#include "collectives/bootstrap/host_messages.h"
#include "collectives/bootstrap/host_secret.h"
#include "collectives/bootstrap/tcp_channel.h"
#include "collectives/bootstrap/tcp_socket.h"
#include "core/deadline.h"
#include "core/status.h"

namespace keel {

// Lives on the service thread from start() on, and ends when every rank that arrived has left or
// failed. A rank keeps its connection for the life of its communicator:
//  - a connection that ends without the rank's leave is the rank's failure, announced to the rest;
//  - an abort is announced to all ranks;
//  - once all remaining ranks of a communicator have asked, a new server lets these ranks meet
//    again (Regroup): phase one of a shrink. The new server runs phase two: kReady, after which the
//    new server has decided for all;
//  - the report of a failed wire becomes the failure of the wire's peer unless a better cause comes
//    within kGraceNs: the peer's end or another rank's abort.
// The first of these events is the verdict, the same on every rank.
class HostServer : public std::enable_shared_from_this<HostServer> {
 public:
  // |socket|: of listen_tcp(). |job|: ranks of a different job are refused.
  static Status start(FileDescriptor socket, HostSecret secret, const ProcessToken& job,
                      std::string name, uint64_t epoch = 1,
                      std::shared_ptr<HostServer>* out_server = nullptr);
  HostServer(HostSecret secret, const ProcessToken& job, std::string name)
      : secret_(std::move(secret)), job_(job), name_(std::move(name)) {}

  // Makes a server for the remaining ranks of |table|, in place of a server that has ended: rank
  // |own|, of this process, is the lowest. Ranks arrive by adopt() and only ask to regroup. Learns
  // of ended ranks from kLost notices of |own|.
  static std::shared_ptr<HostServer> succeed(const HostSecret& secret, const HostTable& table,
                                             const SocketAddress& address, uint32_t own);
  // Takes the authenticated connection of |rank|. On the service thread.
  void adopt(uint32_t rank, FileDescriptor socket);

  static constexpr int64_t kGraceNs = 300'000'000;
  // Interval of empty notices (Notice::Kind::kAlive), in both directions.
  static constexpr int64_t kAliveNs = 500'000'000;

 private:
  struct Connection {
    std::shared_ptr<TcpChannel> channel;
    bool has_arrived = false;
    uint32_t rank = 0;
  };
  struct Report {
    uint32_t rank = 0;
    Status why;
    Deadline due;
  };

  void on_peer(FileDescriptor socket);
  // Opens the channel of a new connection; returns the number of the connection, or 0.
  uint64_t add_connection(FileDescriptor socket, size_t limit);
  void on_message(uint64_t number, ByteView message);
  void on_end(uint64_t number, const Status& why);
  void on_deadline(uint64_t number);
  Status on_hello(uint64_t number, Connection& connection, ByteView message);
  Status check(const HostHello& hello) const;
  void on_notice(uint64_t number, const Connection& connection, const Notice& notice);
  void complete();
  void refuse(uint64_t number, const Status& why);
  // Fails the rendezvous for ranks that have arrived and ranks that arrive later.
  void fail_rendezvous(const Status& why);
  void fail_rank(uint32_t rank, const Status& why);
  void judge_reports();
  // ---- going on without the failed ranks: host_regroup.cc ----
  // One communicator whose ranks ask to go on.
  struct Asking {
    std::vector<uint32_t> members;        // ranks of the job
    std::map<uint32_t, uint32_t> places;  // rank in the communicator -> rank of the job that asked
    std::optional<Deadline> absent;       // when ranks that have not asked are failed
    std::weak_ptr<HostServer> next;       // the rendezvous of the remaining ranks
  };
  void on_ask(const Connection& connection, const RegroupAsk& ask);
  Status check_ask(uint32_t rank, const RegroupAsk& ask) const;
  void leave_out_absent();
  bool has_asked(const Asking& asking, uint32_t rank) const;
  // Regroups without |rank| from now on.
  void regroup_without(uint32_t rank, const Status& why);
  // Starts the rendezvous of the remaining ranks once all have asked.
  void regroup_if_all_asked(Asking& asking);
  void on_ready(uint32_t rank);
  Status start_next(keel_unique_id* out_id, std::shared_ptr<HostServer>* out_next);
  void stop_listening_if_all_know();
  void tell(const Notice& notice);
  void forget(uint64_t number);
  std::string absent_ranks() const;

  const HostSecret secret_;
  const ProcessToken job_;
  const std::string name_;
  SocketAddress address_;
  std::shared_ptr<HostListener> listener_;
  uint64_t next_ = 1;
  uint32_t world_ = 0;  // 0 until the first rank arrives
  uint32_t first_rank_ = 0;
  std::map<uint64_t, Connection> connections_;
  std::map<uint32_t, uint64_t> members_;  // rank -> number of the connection
  std::map<uint32_t, HostRank> arrived_;  // by rank
  HostTable table_;
  bool is_complete_ = false;
  Status failure_;               // of the rendezvous
  std::set<uint32_t> answered_;  // have received |failure_|
  bool is_judged_ = false;
  std::map<uint32_t, bool> gone_;  // left or failed
  std::vector<Report> reports_;
  std::map<uint64_t, Asking> askings_;  // by context
  std::set<uint32_t> ready_;
  std::optional<uint32_t> own_rank_;  // of a server that succeeded another
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_HOST_SERVER_H_
