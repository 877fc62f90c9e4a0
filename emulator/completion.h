// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_COMPLETION_H_
#define KEEL_EMULATOR_COMPLETION_H_

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

#include "emulator/bell.h"
#include "emulator/status.h"

namespace keel::emulator {

// Happens once: a point of a stream that is reached, or a gate that the host opens.
// Shared by all who wait for it. Thread-safe.
class Completion {
 public:
  using Callback = std::function<void(const Status&)>;

  bool is_done() const { return done_.load(std::memory_order_acquire); }
  // kNotReady, or how it ended.
  Status status() const;
  // When it happened, by the emulated chip's clock; for one that is done.
  Time time() const { return time_; }

  // Blocks; kTimedOut at |deadline|.
  Status wait_until(Time deadline) const;
  // Calls |callback| once it is done, on the thread that completes it; at once, on this
  // thread, if it is already.
  void notify(Callback callback);

  // Once. What was to be notified is returned, for the caller to call with no lock held.
  [[nodiscard]] std::vector<Callback> complete(Status status, Time time);
  // The same, and calls them.
  void complete_and_notify(const Status& status, Time time);

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::atomic<bool> done_{false};
  Status status_;  // these two are written before done_ is set, and not again
  Time time_;
  std::vector<Callback> callbacks_;
};

}  // namespace keel::emulator

#endif  // KEEL_EMULATOR_COMPLETION_H_
