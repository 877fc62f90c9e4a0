// SPDX-License-Identifier: Apache-2.0
#include "emulator/engine.h"

namespace keel::emulator {

std::shared_ptr<Engine::Waiter> Engine::enter(int priority,
                                              const std::shared_ptr<Notifier>& notifier) {
  const std::lock_guard lock(mutex_);
  if (!busy_) {
    busy_ = true;
    return nullptr;
  }
  auto waiter = std::make_shared<Waiter>();
  waiter->priority = priority;
  waiter->ticket = tickets_++;
  waiter->notifier = notifier;
  waiters_.insert(waiter);
  return waiter;
}

bool Engine::leave(const std::shared_ptr<Waiter>& waiter) {
  const std::lock_guard lock(mutex_);
  return waiters_.erase(waiter) != 0;
}

void Engine::release(Time free_at) {
  std::shared_ptr<Waiter> next;
  {
    const std::lock_guard lock(mutex_);
    free_at_ = free_at;
    if (waiters_.empty()) {
      busy_ = false;
      return;
    }
    next = *waiters_.begin();
    waiters_.erase(waiters_.begin());
    next->granted.store(true);
  }
  next->notifier->ring();
}

}  // namespace keel::emulator
