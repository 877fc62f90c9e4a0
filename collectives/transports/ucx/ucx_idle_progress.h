// SPDX-License-Identifier: Apache-2.0
// Progress of a UCX worker whose owner is in no call.
#ifndef KEEL_COLLECTIVES_TRANSPORTS_UCX_UCX_IDLE_PROGRESS_H_
#define KEEL_COLLECTIVES_TRANSPORTS_UCX_UCX_IDLE_PROGRESS_H_

#include <atomic>
#include <cstdint>
#include <mutex>

#include "collectives/transports/ucx/ucx_worker.h"
#include "core/status.h"

namespace keel {

// UCX does its part of a message in the calls of ucp_worker_progress alone: it sends the rest of
// what a socket did not take at once, and answers peers that wait for an acknowledgement. The
// service thread makes these calls once the owner of the worker has made none for some
// milliseconds: without them a sender would wait until the receiver's next call. An owner that
// calls again sooner pays no system call for it, which would double the time of a short message.
//
// The owner's thread calls all functions. Between take() and leave() the worker and all that its
// callbacks touch belong to the owner; later, to the service thread.
class UcxIdleProgress {
 public:
  explicit UcxIdleProgress(UcxWorker& worker) : worker_(worker) {}
  UcxIdleProgress(const UcxIdleProgress&) = delete;
  UcxIdleProgress& operator=(const UcxIdleProgress&) = delete;
  ~UcxIdleProgress() { stop(); }

  // After the worker has been opened, which belongs to the owner until leave().
  Status start();
  // No effect if the worker belongs to the owner.
  void take() {
    if (holder_.load(std::memory_order_relaxed) == Holder::kOwner) return;
    Holder free = Holder::kNobody;
    if (!holder_.compare_exchange_strong(free, Holder::kOwner)) [[unlikely]]
      take_back();
  }
  // No effect unless the worker belongs to the owner.
  void leave();
  // The worker belongs to the owner for good.
  void stop();

 private:
  enum class Holder : uint8_t {
    kOwner,    // in a call
    kNobody,   // the owner takes it without a lock; the service thread looks from time to time
    kService,  // which waits for events of the worker
  };
  // Between two looks of the service thread. It takes the worker when the owner has not called
  // between two of them.
  static constexpr int64_t kLookNs = 2'000'000;

  void take_back();
  void look();
  void serve();

  UcxWorker& worker_;
  uint64_t service_ = 0;  // of the service thread; 0: not started, or stopped
  std::mutex mutex_;      // held by the service thread while it has the worker in hand
  std::atomic<Holder> holder_ = Holder::kOwner;
  std::atomic<uint64_t> leaves_ = 0;
  std::atomic<bool> is_looking_ = false;  // a look will follow
  uint64_t seen_leaves_ = 0;              // at the last look; of the service thread
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_TRANSPORTS_UCX_UCX_IDLE_PROGRESS_H_
