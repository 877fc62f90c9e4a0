// SPDX-License-Identifier: Apache-2.0
#include "core/timeline.h"

#include <algorithm>

#include "core/stream.h"

namespace keel {

Timeline::BusyList& Timeline::busy_list() {
  static constinit BusyList list;
  return list;
}

void Timeline::set_busy() {
  BusyList& list = busy_list();
  std::lock_guard lock(list.mutex);
  if (busy_.load(std::memory_order_relaxed)) return;
  retain();  // the list's reference
  previous_ = nullptr;
  next_ = list.first;
  if (next_ != nullptr) next_->previous_ = this;
  list.first = this;
  list.count.fetch_add(1, std::memory_order_release);
  busy_.store(true, std::memory_order_relaxed);
}

void Timeline::set_idle() {
  BusyList& list = busy_list();
  {
    std::lock_guard lock(list.mutex);
    if (!busy_.load(std::memory_order_relaxed)) return;
    busy_.store(false, std::memory_order_relaxed);
    (previous_ == nullptr ? list.first : previous_->next_) = next_;
    if (next_ != nullptr) next_->previous_ = previous_;
    list.count.fetch_sub(1, std::memory_order_release);
  }
  release();
}

void Timeline::mark_done(uint64_t position) {
  uint64_t known = done_.load(std::memory_order_relaxed);
  while (known < position &&
         !done_.compare_exchange_weak(known, position, std::memory_order_release,
                                      std::memory_order_relaxed)) {
  }
}

void Timeline::finish() {
  mark_done(UINT64_MAX);
  set_idle();
  std::lock_guard lock(mutex_);
  stream_ = nullptr;
}

Ref<Stream> Timeline::stream() {
  std::lock_guard lock(mutex_);
  if (stream_ == nullptr || !stream_->try_retain()) return {};
  return Ref<Stream>::adopt(stream_);
}

bool Timeline::poll(uint64_t position, bool may_fence, WakeList& wake) {
  if (is_done(position)) return true;
  Ref<Stream> found = stream();
  if (!found) return is_done(position);
  const bool reached = found->has_reached(position, may_fence, wake);
  wake.push_back(std::move(found));  // perhaps the last reference: dropped without a lock
  return reached;
}

void Timeline::remember(const Wait& wait) {
  Wait* oldest = &waits_[0];
  for (Wait& known : waits_) {
    if (known.stream == wait.stream) {
      if (known.position < wait.position) known = wait;
      return;
    }
    if (known.at < oldest->at) oldest = &known;
  }
  *oldest = wait;
}

void Timeline::waits_for(Timeline& other, uint64_t other_position, uint64_t position) {
  std::array<Wait, kWaits> inherited;
  {
    std::lock_guard lock(other.mutex_);
    inherited = other.waits_;
  }
  std::lock_guard lock(mutex_);
  for (const Wait& wait : inherited) {
    if (wait.stream == 0 || wait.stream == id_ || wait.at > other_position) continue;
    remember({wait.stream, wait.position, position});
  }
  remember({other.id_, other_position, position});
}

void Timeline::forget_waits() {
  std::lock_guard lock(mutex_);
  waits_ = {};
}

bool Timeline::is_behind(uint64_t other, uint64_t position) {
  std::lock_guard lock(mutex_);
  return std::any_of(waits_.begin(), waits_.end(), [&](const Wait& wait) {
    return wait.stream == other && wait.position >= position;
  });
}

}  // namespace keel
