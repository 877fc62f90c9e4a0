// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_ENGINE_H_
#define KEEL_EMULATOR_ENGINE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>

#include "emulator/bell.h"

namespace keel::emulator {

// A part of the chip that does one thing at a time, and is shared by its queues: the
// compute units, or the copy engine of one direction. So what all streams together get
// is what the profile says, and of those that wait the most urgent is next.
class Engine {
 public:
  // Blocks until the engine is the caller's, or |interrupted| (reads atomics only), when
  // it is false. |priority|: the lowest first; equal ones in the order they came.
  template <typename Interrupted>
  bool acquire(int priority, const std::shared_ptr<Bell>& bell, Interrupted interrupted) {
    const std::shared_ptr<Waiter> waiter = enter(priority, bell);
    if (waiter == nullptr) return true;
    bell->wait_until(Time::max(), [&] { return waiter->granted.load() || interrupted(); });
    return waiter->granted.load() || !leave(waiter);
  }
  // |free_at|: when, by the chip's clock, it has done its work.
  void release(Time free_at);

  // How many wait for it now.
  size_t waiting() const {
    const std::lock_guard lock(mutex_);
    return waiters_.size();
  }

  // For who holds it: not before then can it do anything else.
  Time free_at() const { return free_at_; }

 private:
  struct Waiter {
    int priority;
    uint64_t ticket;
    std::shared_ptr<Bell> bell;
    std::atomic<bool> granted{false};
  };
  struct Order {
    bool operator()(const std::shared_ptr<Waiter>& a, const std::shared_ptr<Waiter>& b) const {
      return a->priority != b->priority ? a->priority < b->priority : a->ticket < b->ticket;
    }
  };

  // NULL: the engine was free, and is the caller's.
  std::shared_ptr<Waiter> enter(int priority, const std::shared_ptr<Bell>& bell);
  // False if the engine had just been granted.
  bool leave(const std::shared_ptr<Waiter>& waiter);

  mutable std::mutex mutex_;
  bool busy_ = false;
  uint64_t tickets_ = 0;
  std::set<std::shared_ptr<Waiter>, Order> waiters_;
  Time free_at_;  // guarded by holding the engine
};

}  // namespace keel::emulator

#endif  // KEEL_EMULATOR_ENGINE_H_
