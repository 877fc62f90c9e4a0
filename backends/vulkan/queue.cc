// SPDX-License-Identifier: Apache-2.0
#include "backends/vulkan/queue.h"

#include <algorithm>
#include <keel/thread_start.hpp>

#include "backends/vulkan/result.h"

namespace keel::vulkan {

namespace {

// The longest sleep of the notifier before it checks for shutdown.
constexpr int64_t kNotifierSliceNs = 200'000'000;

}  // namespace

Queue::~Queue() {
  {
    const std::lock_guard lock(notify_mutex_);
    stopping_ = true;
  }
  notify_wake_.notify_one();
  if (notifier_.joinable()) notifier_.join();
  for (const Pending& pending : pending_) pending.fn(pending.user, KEEL_CANCELLED);
  if (clock_ != VK_NULL_HANDLE) vk_.DestroySemaphore(device_, clock_, nullptr);
}

keel_status Queue::open(uint32_t family, uint32_t index) {
  index_ = index;
  vk_.GetDeviceQueue(device_, family, index, &handle_);
  VkSemaphoreTypeCreateInfo type = {};
  type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  VkSemaphoreCreateInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
  info.pNext = &type;
  return to_status(vk_.CreateSemaphore(device_, &info, nullptr, &clock_), "vkCreateSemaphore");
}

keel_status Queue::failed(VkResult result, const char* call) {
  if (result == VK_ERROR_DEVICE_LOST) device_lost_->store(true, std::memory_order_release);
  return to_status(result, call);
}

keel_status Queue::submit(VkCommandBuffer commands, const TimelineValue* waits, uint32_t wait_count,
                          uint64_t* out_value) {
  std::array<VkSemaphore, kMaxQueues> wait_semaphores;
  std::array<uint64_t, kMaxQueues> wait_values;
  std::array<VkPipelineStageFlags, kMaxQueues> wait_stages;
  for (uint32_t i = 0; i < wait_count; ++i) {
    wait_semaphores[i] = waits[i].queue->clock_;
    wait_values[i] = waits[i].value;
    wait_stages[i] = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
  }
  VkTimelineSemaphoreSubmitInfo timeline = {};
  timeline.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
  timeline.waitSemaphoreValueCount = wait_count;
  timeline.pWaitSemaphoreValues = wait_values.data();
  timeline.signalSemaphoreValueCount = 1;
  VkSubmitInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  info.pNext = &timeline;
  info.waitSemaphoreCount = wait_count;
  info.pWaitSemaphores = wait_semaphores.data();
  info.pWaitDstStageMask = wait_stages.data();
  info.commandBufferCount = commands == VK_NULL_HANDLE ? 0 : 1;
  info.pCommandBuffers = &commands;
  info.signalSemaphoreCount = 1;
  info.pSignalSemaphores = &clock_;

  const std::lock_guard lock(submit_mutex_);
  const uint64_t value = submitted_ + 1;
  timeline.pSignalSemaphoreValues = &value;
  const VkResult result = vk_.QueueSubmit(handle_, 1, &info, VK_NULL_HANDLE);
  if (result != VK_SUCCESS) return failed(result, "vkQueueSubmit");
  submitted_ = value;
  *out_value = value;
  return KEEL_OK;
}

keel_status Queue::query(uint64_t value) {
  if (reached_.load(std::memory_order_acquire) >= value) return KEEL_OK;
  if (device_lost_->load(std::memory_order_acquire)) return KEEL_DEVICE_LOST;
  uint64_t now = 0;
  const VkResult result = vk_.GetSemaphoreCounterValue(device_, clock_, &now);
  if (result != VK_SUCCESS) return failed(result, "vkGetSemaphoreCounterValue");
  uint64_t seen = reached_.load(std::memory_order_relaxed);
  while (seen < now && !reached_.compare_exchange_weak(seen, now, std::memory_order_release)) {
  }
  return now >= value ? KEEL_OK : KEEL_NOT_READY;
}

keel_status Queue::wait(uint64_t value, int64_t timeout_ns) {
  if (reached_.load(std::memory_order_acquire) >= value) return KEEL_OK;
  if (device_lost_->load(std::memory_order_acquire)) return KEEL_DEVICE_LOST;
  VkSemaphoreWaitInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
  info.semaphoreCount = 1;
  info.pSemaphores = &clock_;
  info.pValues = &value;
  const VkResult result = vk_.WaitSemaphores(device_, &info, static_cast<uint64_t>(timeout_ns));
  if (result == VK_TIMEOUT) return KEEL_TIMED_OUT;
  if (result != VK_SUCCESS) return failed(result, "vkWaitSemaphores");
  uint64_t seen = reached_.load(std::memory_order_relaxed);
  while (seen < value && !reached_.compare_exchange_weak(seen, value, std::memory_order_release)) {
  }
  return KEEL_OK;
}

void Queue::notify(uint64_t value, keel_notify_fn fn, void* user) {
  const keel_status status = query(value);
  if (status != KEEL_NOT_READY) {
    fn(user, status);
    return;
  }
  {
    const std::lock_guard lock(notify_mutex_);
    // Starts the thread first: on failure the caller is not called back.
    if (!notifier_.joinable()) {
      notifier_ = kit::start_thread<std::thread>("keel-vulkan", [this] { run_notifier(); });
    }
    pending_.push_back({value, fn, user});
  }
  notify_wake_.notify_one();
}

// While notifications are pending, wakes at each submission that the queue finishes, so that a late
// request for an early value does not wait for another value.
void Queue::run_notifier() {
  std::vector<Pending> due;
  std::unique_lock lock(notify_mutex_);
  while (!stopping_) {
    if (pending_.empty()) {
      notify_wake_.wait(lock);
      continue;
    }
    const uint64_t seen = reached_.load(std::memory_order_acquire);
    keel_status status = KEEL_OK;
    if (std::all_of(pending_.begin(), pending_.end(),
                    [&](const Pending& pending) { return pending.value > seen; })) {
      // Pending values were submitted, so the clock does reach |seen| + 1.
      lock.unlock();
      status = wait(seen + 1, kNotifierSliceNs);
      if (status == KEEL_OK) status = query(UINT64_MAX);  // updates reached_ to the clock
      lock.lock();
      if (status == KEEL_TIMED_OUT) continue;
    }
    const bool lost = status == KEEL_DEVICE_LOST;
    const uint64_t reached = reached_.load(std::memory_order_acquire);
    const auto rest = std::partition(pending_.begin(), pending_.end(), [&](const Pending& pending) {
      return !lost && pending.value > reached;
    });
    due.assign(rest, pending_.end());
    pending_.erase(rest, pending_.end());
    lock.unlock();
    for (const Pending& pending : due) {
      pending.fn(pending.user, pending.value <= reached ? KEEL_OK : KEEL_DEVICE_LOST);
    }
    lock.lock();
  }
}

}  // namespace keel::vulkan
