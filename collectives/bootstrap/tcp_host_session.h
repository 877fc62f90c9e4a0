// SPDX-License-Identifier: Apache-2.0
// A rank's connection to the server of its job.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_TCP_HOST_SESSION_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_TCP_HOST_SESSION_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "collectives/bootstrap/host_bootstrap.h"
#include "collectives/bootstrap/host_messages.h"
#include "collectives/bootstrap/notice_sender.h"
#include "collectives/bootstrap/tcp_channel.h"
#include "collectives/transports/tcp/wire_hub.h"
#include "core/status.h"

namespace keel {

// HostSession over TCP.
class TcpHostSession final : public HostSession {
 public:
  // |socket|: authenticated, after the table was received. |server|: the serving process.
  static Status open(FileDescriptor socket, std::shared_ptr<WireHub> hub,
                     std::shared_ptr<const HostTable> table, const ProcessToken& server,
                     uint32_t rank, std::unique_ptr<HostSession>* out_session);
  TcpHostSession(std::shared_ptr<WireHub> hub, std::shared_ptr<const HostTable> table,
                 const ProcessToken& server, uint32_t rank);
  ~TcpHostSession() override;

  const HostTable& table() const override { return table_; }
  uint32_t rank() const override { return rank_; }
  const ChosenInterface& interface() const override { return hub_->interface(); }
  Status open_wires(uint64_t context, std::unique_ptr<WireSet>* out_wires) override;
  void abort(const Status& why) override;
  Status report(uint32_t peer, const Status& why) override;
  Status failure() const override;
  std::vector<uint32_t> failed_ranks() const override;
  bool has_outlived_server() const override;
  void look_for(const std::vector<uint32_t>& peers) override;
  void set_on_failure(std::function<void(const Status&)> on_failure) override;
  Status regroup(const RegroupRequest& request, const Deadline& deadline,
                 RegroupPlace* out_place) override;
  Status commit(const Deadline& deadline) override;
  Status find_present(uint32_t rank, uint64_t context, const Deadline& deadline) override;
  void finish(uint64_t context, const Status& refusal) override;
  void leave() override;

 private:
  void on_message(ByteView message);
  void on_notice(const Notice& notice);  // of the server, or of a peer
  void on_end(const Status& why);
  void on_deadline();
  // Stores the verdict unless there is one, and passes it on. |own|: what the other ranks are to
  // be told if no server tells them.
  void judge(const Status& verdict, const std::optional<Notice>& own = std::nullopt);
  // Tells the ranks that have neither left nor failed what the server has not told them.
  void tell_peers();
  // The connection to the server, or to the rank in its place. Requires |mutex_|.
  TcpChannel& server_locked() const { return successor_ ? *successor_ : *channel_; }
  // ---- the server has ended: host_succession.cc ----
  // Connects to the lowest live rank of |members|, the new server; serves if this rank is the
  // lowest.
  Status find_server(const RegroupRequest& request, const std::vector<uint32_t>& members,
                     const Deadline& deadline);
  Status open_successor(FileDescriptor socket);
  // On the serving rank: finds the ended ranks of |members| and reports them to the own server.
  Status probe(const RegroupRequest& request, const std::vector<uint32_t>& members,
               const Deadline& deadline);
  // Checks whether the successor still serves this job.
  Status probe_successor(const RegroupRequest& request, const Deadline& deadline);
  // Asks the current server, and waits for the answer.
  Status ask(const RegroupRequest& request, RegroupAsk ask, const Deadline& deadline);
  // KEEL_OK if no rank of |members| that the server left out has gone back to an earlier job.
  Status check_left_out(const RegroupRequest& request, const std::vector<uint32_t>& members,
                        const Deadline& deadline);
  std::string server_name(const std::vector<uint32_t>& ranks) const;

  const std::shared_ptr<WireHub> hub_;
  const std::shared_ptr<const HostTable> shared_table_;
  const HostTable& table_;  // |*shared_table_|
  const ProcessToken server_;
  const uint32_t rank_;
  std::shared_ptr<TcpChannel> channel_;  // constant after open()

  mutable std::mutex mutex_;
  std::condition_variable judged_;
  Status verdict_;
  std::set<uint32_t> failed_;
  std::set<uint32_t> left_;
  std::optional<Notice> untold_;  // of this rank, until the server has told it or no rank need know
  std::shared_ptr<NoticeSender> notices_;
  std::set<uint32_t> missed_;  // by the last look_for()
  std::optional<Deadline> next_look_;
  Status regroup_failure_;
  std::optional<Regroup> regroup_;  // the server's answer
  bool is_committed_ = false;
  bool has_left_ = false;
  bool has_server_ = true;                  // the connection is open
  bool serves_ = false;                     // this rank has succeeded the server
  std::optional<uint32_t> successor_rank_;  // of |successor_|
  std::set<uint32_t> failed_by_probe_;      // told to the own server
  std::shared_ptr<TcpChannel> successor_;
  std::mutex regroup_mutex_;             // one regroup() at a time; before |mutex_|
  std::recursive_mutex callback_mutex_;  // held while |on_failure_| runs; before |mutex_|
  std::function<void(const Status&)> on_failure_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_TCP_HOST_SESSION_H_
