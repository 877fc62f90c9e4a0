// SPDX-License-Identifier: Apache-2.0
// A rank's notices to other ranks of a job that has no server any more.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_NOTICE_SENDER_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_NOTICE_SENDER_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "collectives/bootstrap/handshake.h"
#include "collectives/bootstrap/host_messages.h"
#include "collectives/bootstrap/tcp_channel.h"
#include "collectives/transports/tcp/wire_hub.h"
#include "core/deadline.h"
#include "core/status.h"

namespace keel {

// Connects to the wire ports of the ranks, on the service thread and kMostAtOnce at a time, so that
// a rank of a silent host delays no other. A rank that cannot be reached is passed over: it has
// ended, or its own failure ends it. Thread-safe.
class NoticeSender : public std::enable_shared_from_this<NoticeSender> {
 public:
  // Starts to send |notice| to |ranks| of the job of |hub|. Returns at once.
  static std::shared_ptr<NoticeSender> start(std::shared_ptr<WireHub> hub, const Notice& notice,
                                             std::vector<uint32_t> ranks);
  NoticeSender(std::shared_ptr<WireHub> hub, const Notice& notice, std::vector<uint32_t> ranks)
      : hub_(std::move(hub)), message_(write_notice(notice)), ranks_(std::move(ranks)) {}

  // Waits until each rank has the notice or was passed over, or |deadline| has passed. Not on the
  // service thread.
  void wait(const Deadline& deadline);
  // Ends what has not been sent. No callback runs after the return.
  void close();

 private:
  // One rank that is being told.
  struct Dialog {
    std::shared_ptr<TcpChannel> channel;
    HandshakeInitiator handshake;
    bool has_proven = false;
  };
  static constexpr size_t kMostAtOnce = 64;

  // Connects to further ranks. Requires |mutex_|.
  void connect_more_locked();
  Status connect_locked(uint32_t rank);
  void on_message(uint32_t rank, ByteView message);
  // |rank| has the notice, or is passed over.
  void finish(uint32_t rank, bool is_sent);

  const std::shared_ptr<WireHub> hub_;
  const Bytes message_;
  std::mutex mutex_;
  std::condition_variable finished_;
  std::vector<uint32_t> ranks_;                          // still to be told, the next one last
  std::map<uint32_t, std::shared_ptr<Dialog>> dialogs_;  // by rank
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_NOTICE_SENDER_H_
