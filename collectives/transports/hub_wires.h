// SPDX-License-Identifier: Apache-2.0
// The common part of wires that get their connections from a rank's wire port.
#ifndef KEEL_COLLECTIVES_TRANSPORTS_HUB_WIRES_H_
#define KEEL_COLLECTIVES_TRANSPORTS_HUB_WIRES_H_

#include <sys/epoll.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "base/ipc/file_descriptor.h"
#include "collectives/transports/tcp/wire_hub.h"
#include "collectives/transports/wire.h"
#include "core/status.h"

namespace keel {

// The failure of the set, its epoll set, and the accepted connections that its thread has not
// taken yet. A derived class calls leave_hub() first in its destructor.
class HubWires : public WireSet {
 public:
  // Gives the set an accepted connection. Thread-safe.
  void adopt(uint32_t peer, uint32_t lane, FileDescriptor socket);
  void set_deadline(const Deadline& deadline) override { deadline_ = deadline; }
  void wake() override;
  void cancel(const Status& reason) override;
  Status failure(uint32_t* out_peer) const override;

 protected:
  struct Arrival {
    uint32_t peer = 0;
    uint32_t lane = 0;
    FileDescriptor socket;
  };
  // epoll_event::data of the descriptor that adopt(), cancel() and wake() make readable.
  static constexpr uint64_t kNews = UINT64_MAX;

  HubWires(std::shared_ptr<WireHub> hub, uint64_t context)
      : hub_(std::move(hub)), context_(context) {}
  Status open_descriptors();
  Status enter_hub() { return hub_->add(context_, this); }
  // Also ends the threads of connect_later().
  void leave_hub();

  Status watch(int descriptor, uint32_t events, uint64_t data);
  // Waits, a second at most, and returns the number of events in |events|.
  size_t wait(int64_t timeout_ns, std::span<epoll_event> events);
  bool has_news() const { return has_news_.load(std::memory_order_acquire); }
  // Takes what has arrived. Returns the failure that cancel() or fail() has noted.
  Status take_arrivals(std::vector<Arrival>* out_arrivals);
  // Notes the failure, unless there is one. Returns the first.
  Status note_failure(const Status& why, uint32_t peer);
  std::string peer_name(uint32_t peer) const { return hub_->table().ranks[peer].name(); }
  // Connects the lane to the lower rank |peer|, as WireHub::connect(), on a thread of its own: a
  // stopped peer does not hold up messages with the others. The connection arrives as an accepted
  // one does; a failure is noted.
  void connect_later(uint32_t peer, uint32_t lane);
  // Whether |peer| and |lane| name a wire of this rank; else the failure to note.
  Status check_wire(uint32_t peer, uint32_t lane) const;

  // Returns the time if the connections of the wires are to be asked for silence, as every tenth of
  // a second.
  std::optional<int64_t> time_to_look();

  const std::shared_ptr<WireHub> hub_;
  const uint64_t context_;
  FileDescriptor epoll_;

 private:
  void run_connect(uint32_t peer, uint32_t lane, const Deadline& deadline);

  std::atomic<bool> is_cancelled_{false};           // ends run_connect()
  Deadline deadline_ = Deadline::after(INT64_MAX);  // of connect_later()
  Deadline next_look_ = Deadline::after(0);
  std::map<std::pair<uint32_t, uint32_t>, std::thread> connecting_;  // by peer and lane
  FileDescriptor news_;  // eventfd: arrivals, cancel(), wake()
  std::atomic<bool> has_news_{false};
  mutable std::mutex mutex_;
  Status failure_;
  uint32_t failed_peer_ = UINT32_MAX;
  std::vector<Arrival> arrivals_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_TRANSPORTS_HUB_WIRES_H_
