// SPDX-License-Identifier: Apache-2.0
// Progress of a UCX worker whose owner is in no call.
#ifndef KEEL_COLLECTIVES_TRANSPORTS_UCX_UCX_IDLE_PROGRESS_H_
#define KEEL_COLLECTIVES_TRANSPORTS_UCX_UCX_IDLE_PROGRESS_H_

#include <cstdint>
#include <mutex>

#include "collectives/transports/ucx/ucx_worker.h"
#include "core/status.h"

namespace keel {

// UCX does its part of a message in the calls of ucp_worker_progress alone: it sends the rest of
// what a socket did not take at once, and answers peers that wait for an acknowledgement. The
// service thread makes these calls while the owner of the worker does not: without them a sender
// would wait until the receiver's next call.
//
// The owner's thread calls all functions. Between take() and leave() the worker and all that its
// callbacks touch belong to the owner, otherwise to the service thread.
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
    if (!is_taken_) [[unlikely]]
      take_back();
  }
  // No effect unless the worker belongs to the owner.
  void leave();
  // The worker belongs to the owner for good.
  void stop();

 private:
  void take_back();
  void serve();

  UcxWorker& worker_;
  uint64_t service_ = 0;  // of the service thread; 0: not started, or stopped
  std::mutex mutex_;
  bool is_taken_ = true;  // written under the mutex, by the owner
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_TRANSPORTS_UCX_UCX_IDLE_PROGRESS_H_
