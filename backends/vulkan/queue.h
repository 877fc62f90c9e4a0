// SPDX-License-Identifier: Apache-2.0
// A hardware queue and its clock: one timeline semaphore, which each submission increments. Any
// number of streams share a queue.
//
// A semaphore per stream would guarantee no more: the barriers that order a stream cover all
// earlier submissions to the queue, so the submissions of one queue finish in order anyway. One
// semaphore per queue saves a semaphore wait for each event between streams of the queue.
#ifndef KEEL_BACKENDS_VULKAN_QUEUE_H_
#define KEEL_BACKENDS_VULKAN_QUEUE_H_

#include <keel/abi.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "backends/vulkan/vulkan_functions.h"

namespace keel::vulkan {

inline constexpr uint32_t kMaxQueues = 8;

class Queue;

// A timeline value of a queue's clock.
struct TimelineValue {
  Queue* queue = nullptr;
  uint64_t value = 0;
};

// Thread-safe.
class Queue {
 public:
  Queue(const DeviceFunctions& vk, VkDevice device, std::atomic<bool>* device_lost)
      : vk_(vk), device_(device), device_lost_(device_lost) {}
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  keel_status open(uint32_t family, uint32_t index);

  // Submits |commands| (NULL: none) behind |wait_count| timeline values of other queues.
  // |*out_value| is the clock's value after completion. Does not block on the device's work.
  keel_status submit(VkCommandBuffer commands, const TimelineValue* waits, uint32_t wait_count,
                     uint64_t* out_value);

  // KEEL_OK once the clock has reached |value|, else KEEL_NOT_READY.
  keel_status query(uint64_t value);
  // Blocks up to |timeout_ns|, then returns KEEL_TIMED_OUT.
  keel_status wait(uint64_t value, int64_t timeout_ns);
  // Calls |fn| once: immediately if |value| is reached or the device is lost, else when either
  // happens, or with KEEL_CANCELLED when the queue is destroyed.
  void notify(uint64_t value, keel_notify_fn fn, void* user);

  uint32_t index() const { return index_; }

 private:
  struct Pending {
    uint64_t value;
    keel_notify_fn fn;
    void* user;
  };

  keel_status failed(VkResult result, const char* call);
  void run_notifier();

  const DeviceFunctions& vk_;
  const VkDevice device_;
  std::atomic<bool>* const device_lost_;
  VkQueue handle_ = VK_NULL_HANDLE;
  VkSemaphore clock_ = VK_NULL_HANDLE;
  uint32_t index_ = 0;

  std::mutex submit_mutex_;
  uint64_t submitted_ = 0;             // guarded by submit_mutex_
  std::atomic<uint64_t> reached_ = 0;  // the last observed value of the clock

  std::mutex notify_mutex_;  // guards all members below
  std::condition_variable notify_wake_;
  std::vector<Pending> pending_;
  bool stopping_ = false;
  std::thread notifier_;  // started by the first notification that must wait
};

}  // namespace keel::vulkan

#endif  // KEEL_BACKENDS_VULKAN_QUEUE_H_
