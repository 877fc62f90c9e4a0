// SPDX-License-Identifier: Apache-2.0
#include "chip.h"

#include <algorithm>
#include <cstdlib>
#include <keel/plugin_kit.hpp>
#include <utility>

namespace tinychip {

namespace kit = keel::kit;

// ---- memory --------------------------------------------------------------------------

keel_status Memory::alloc(uint64_t size, void** out_pointer) {
  const std::lock_guard lock(mutex_);
  if (size > kMemoryBytes - used_) {
    return kit::fail(KEEL_OUT_OF_MEMORY, "tinychip: %llu bytes wanted, %llu are left",
                     static_cast<unsigned long long>(size),
                     static_cast<unsigned long long>(kMemoryBytes - used_));
  }
  const uint64_t whole_blocks = (size + kAlignment - 1) / kAlignment * kAlignment;
  void* const pointer = std::aligned_alloc(kAlignment, whole_blocks);
  if (pointer == nullptr) return kit::fail(KEEL_OUT_OF_MEMORY, "tinychip: the host has none left");
  used_ += size;
  sizes_[pointer] = size;
  *out_pointer = pointer;
  return KEEL_OK;
}

void Memory::free(void* pointer) {
  const std::lock_guard lock(mutex_);
  used_ -= sizes_.at(pointer);
  sizes_.erase(pointer);
  std::free(pointer);
}

uint64_t Memory::left() {
  const std::lock_guard lock(mutex_);
  return kMemoryBytes - used_;
}

// ---- events --------------------------------------------------------------------------

void Event::begin() {
  const std::lock_guard lock(mutex_);
  status_ = KEEL_NOT_READY;
}

void Event::finish(keel_status status) {
  std::deque<Listener> listeners;
  {
    const std::lock_guard lock(mutex_);
    status_ = status;
    time_ = Clock::now();
    listeners.swap(listeners_);
  }
  finished_.notify_all();
  for (const Listener& listener : listeners) listener.fn(listener.user, status);
}

keel_status Event::query() {
  const std::lock_guard lock(mutex_);
  return status_;
}

keel_status Event::wait(int64_t timeout_ns) {
  // Timeouts above a day are limited to a day: the largest one, added to the current time, would
  // wrap.
  constexpr int64_t kDay = 86'400'000'000'000;
  const auto timeout = std::chrono::nanoseconds(std::min(timeout_ns, kDay));
  std::unique_lock lock(mutex_);
  const bool done = finished_.wait_for(lock, timeout, [this] { return status_ != KEEL_NOT_READY; });
  return done ? status_ : KEEL_TIMED_OUT;
}

void Event::wait() {
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [this] { return status_ != KEEL_NOT_READY; });
}

void Event::notify(keel_notify_fn fn, void* user) {
  keel_status status = KEEL_OK;
  {
    const std::lock_guard lock(mutex_);
    status = status_;
    if (status == KEEL_NOT_READY) listeners_.push_back({fn, user});
  }
  if (status != KEEL_NOT_READY) fn(user, status);
}

Event::Clock::time_point Event::time() {
  const std::lock_guard lock(mutex_);
  return time_;
}

// ---- streams -------------------------------------------------------------------------

Stream::~Stream() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Stream::enqueue(Work work) {
  push([this, work = std::move(work)] {
    if (failure_ == KEEL_OK) failure_ = work();
  });
}

void Stream::record(std::shared_ptr<Event> event) {
  event->begin();
  push([this, event = std::move(event)] { event->finish(failure_); });
}

void Stream::wait_for(std::shared_ptr<Event> event) {
  push([event = std::move(event)] { event->wait(); });
}

void Stream::push(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
}

void Stream::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return closing_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    {
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
    }
    lock.lock();
  }
}

}  // namespace tinychip
