// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_COMPLETION_H_
#define KEEL_EMULATOR_COMPLETION_H_

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

#include "emulator/notifier.h"
#include "emulator/status.h"

namespace keel::emulator {

// A one-shot event: a point reached by a stream, or a gate that the host opens. All waiters share
// ownership. Thread-safe.
class Completion {
 public:
  using Callback = std::function<void(const Status&)>;

  bool is_done() const { return done_.load(std::memory_order_acquire); }
  // Returns kNotReady, or the final status.
  Status status() const;
  // The completion time by the emulated chip's clock; valid once done.
  Time time() const { return time_; }

  // Blocks until done; kTimedOut at |deadline|.
  Status wait_until(Time deadline) const;
  // Calls |callback| on the completing thread; if already done, at once on the calling thread.
  void notify(Callback callback);

  // Completes once; later calls do nothing and return no callbacks. The caller calls the returned
  // callbacks with no lock held.
  [[nodiscard]] std::vector<Callback> complete(Status status, Time time);
  // Like complete(), and calls the callbacks.
  void complete_and_notify(const Status& status, Time time);

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::atomic<bool> done_{false};
  Status status_;  // both written before done_ is set, and never again
  Time time_;
  std::vector<Callback> callbacks_;
};

}  // namespace keel::emulator

#endif  // KEEL_EMULATOR_COMPLETION_H_
