// SPDX-License-Identifier: Apache-2.0
#include "core/profiler.h"

#include "core/device.h"
#include "core/insiders.h"

namespace keel {

namespace {

// Number of this thread's calls reported to a profiler as begun and not as ended.
thread_local uint32_t t_depth = 0;

}  // namespace

Profiler& Profiler::get() {
  static Profiler& instance = *new Profiler;
  return instance;
}

Status Profiler::set(const keel_profiler* profiler, const Deadline& deadline) {
  if (t_depth != 0) {
    return failure(KEEL_FAILED_PRECONDITION, "a profiler must not call Keel");
  }
  std::unique_ptr<const keel_profiler> fresh;
  if (profiler != nullptr) fresh = std::make_unique<const keel_profiler>(*profiler);
  std::lock_guard lock(mutex_);
  left_in_use_.reserve(left_in_use_.size() + 1);
  set_observer(ObserverSlot::kProfiler, nullptr);
  current_.store(nullptr, std::memory_order_seq_cst);
  // Enqueueing calls are short, except copies of pageable memory on devices that wait.
  waited_for_.store(true, std::memory_order_seq_cst);
  bool left = false;
  {
    std::unique_lock waiting(left_mutex_);
    left =
        deadline.wait(left_, waiting, [&] { return inside_.load(std::memory_order_seq_cst) == 0; });
  }
  waited_for_.store(false, std::memory_order_seq_cst);
  if (!left) {
    if (owned_) left_in_use_.push_back(std::move(owned_));
    return failure(KEEL_TIMED_OUT, "a call that the former profiler was told of still runs");
  }
  left_in_use_.clear();
  owned_ = std::move(fresh);
  if (!owned_) return {};
  current_.store(owned_.get(), std::memory_order_seq_cst);
  set_observer(ObserverSlot::kProfiler, this);
  return {};
}

void Profiler::tell_left() {
  std::lock_guard lock(left_mutex_);
  left_.notify_all();
}

const keel_profiler* Profiler::enter() {
  inside_.fetch_add(1, std::memory_order_seq_cst);
  const keel_profiler* profiler = current_.load(std::memory_order_seq_cst);
  if (profiler == nullptr) leave();
  return profiler;
}

void Profiler::memory_changed(Device& device, uint64_t allocated_bytes) {
  const keel_profiler* profiler = enter();
  if (profiler == nullptr) return;
  if (profiler->memory != nullptr) {
    ++t_depth;
    {
      const UserCallback callback;  // also on a thread of Keel's own
      profiler->memory(profiler->user, {device.handle()}, allocated_bytes);
    }
    --t_depth;
  }
  leave();
}

void EnqueueCall::begin(const char* name, const Device& device, keel_stream stream) {
  profiler_ = Profiler::get().enter();
  if (profiler_ == nullptr) return;
  ++t_depth;
  if (profiler_->begin != nullptr) {
    token_ = profiler_->begin(profiler_->user, name, {device.handle()}, stream);
  }
}

void EnqueueCall::finish(keel_status status) {
  if (profiler_->end != nullptr) profiler_->end(profiler_->user, token_, status);
  profiler_ = nullptr;
  --t_depth;
  Profiler::get().leave();
}

}  // namespace keel
