// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_ENGINE_H_
#define KEEL_EMULATOR_ENGINE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>

#include "emulator/notifier.h"

namespace keel::emulator {

// A part of the chip that does one thing at a time, shared by the chip's queues: the compute units,
// or the copy engine of one direction. All streams together therefore get the profile's rate, and
// the waiter of the highest priority is next.
class Engine {
 public:
  // Blocks until the caller owns the engine, or returns false once |interrupted| (reads atomics
  // only) is true. |priority|: the lowest number first; equal priorities in order of arrival.
  template <typename Interrupted>
  bool acquire(int priority, const std::shared_ptr<Notifier>& notifier, Interrupted interrupted) {
    const std::shared_ptr<Waiter> waiter = enter(priority, notifier);
    if (waiter == nullptr) return true;
    notifier->wait_until(Time::max(), [&] { return waiter->granted.load() || interrupted(); });
    return waiter->granted.load() || !leave(waiter);
  }
  // |free_at|: when, by the chip's clock, the engine finishes its work.
  void release(Time free_at);

  // Returns the number of waiting callers.
  size_t waiting() const {
    const std::lock_guard lock(mutex_);
    return waiters_.size();
  }

  // The earliest time at which the engine can start new work. Only the engine's owner may call
  // free_at().
  Time free_at() const { return free_at_; }

 private:
  struct Waiter {
    int priority;
    uint64_t ticket;
    std::shared_ptr<Notifier> notifier;
    std::atomic<bool> granted{false};
  };
  struct Order {
    bool operator()(const std::shared_ptr<Waiter>& a, const std::shared_ptr<Waiter>& b) const {
      return a->priority != b->priority ? a->priority < b->priority : a->ticket < b->ticket;
    }
  };

  // Returns NULL if the engine was free; the caller then owns the engine.
  std::shared_ptr<Waiter> enter(int priority, const std::shared_ptr<Notifier>& notifier);
  // Returns false if the engine was already granted to |waiter|.
  bool leave(const std::shared_ptr<Waiter>& waiter);

  mutable std::mutex mutex_;
  bool busy_ = false;
  uint64_t tickets_ = 0;
  std::set<std::shared_ptr<Waiter>, Order> waiters_;
  Time free_at_;  // guarded by holding the engine
};

}  // namespace keel::emulator

#endif  // KEEL_EMULATOR_ENGINE_H_
