// SPDX-License-Identifier: Apache-2.0
// An opened device: VkDevice, its queues, memory and pipelines.
#ifndef KEEL_BACKENDS_VULKAN_DEVICE_H_
#define KEEL_BACKENDS_VULKAN_DEVICE_H_

#include <keel/abi.h>

#include <array>
#include <atomic>
#include <keel/plugin_kit.hpp>
#include <memory>
#include <optional>

#include "backends/vulkan/instance.h"
#include "backends/vulkan/memory.h"
#include "backends/vulkan/physical_device.h"
#include "backends/vulkan/pipelines.h"
#include "backends/vulkan/queue.h"
#include "backends/vulkan/vulkan_functions.h"

namespace keel::vulkan {

// Thread-safe.
class Device {
 public:
  static keel_status open(const Instance& instance, const PhysicalDevice& physical,
                          std::unique_ptr<Device>* out_device);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const DeviceFunctions& functions() const { return vk_; }
  VkDevice handle() const { return handle_; }
  const PhysicalDevice& physical() const { return physical_; }
  Memory& memory() { return *memory_; }
  Pipelines& pipelines() { return *pipelines_; }
  MatmulChoice matmul_choice() const { return instance_.matmul_choice(); }

  // Assigns a queue to a new stream, round-robin.
  Queue& assign_queue();

  bool lost() const { return lost_.load(std::memory_order_acquire); }
  // KEEL_DEVICE_LOST, with a text, once a call has found that; else KEEL_OK.
  keel_status state() const {
    return lost() ? kit::fail(KEEL_DEVICE_LOST, "the device is lost") : keel_status{KEEL_OK};
  }
  // Free and total bytes of device memory, by VK_EXT_memory_budget.
  keel_status memory_info(uint64_t* out_free, uint64_t* out_total) const;
  // 0 VkDevice, 1 VkInstance, 2 VkPhysicalDevice, 3 the queue family's number.
  keel_status native_handle(uint32_t which, void** out_handle) const;

 private:
  Device(const Instance& instance, const PhysicalDevice& physical)
      : instance_(instance), physical_(physical) {}
  keel_status start();

  const Instance& instance_;
  const PhysicalDevice& physical_;
  DeviceFunctions vk_;
  VkDevice handle_ = VK_NULL_HANDLE;
  std::atomic<bool> lost_ = false;
  std::optional<Memory> memory_;
  std::optional<Pipelines> pipelines_;
  std::array<std::unique_ptr<Queue>, kMaxQueues> queues_;
  std::atomic<uint32_t> next_queue_ = 0;
};

}  // namespace keel::vulkan

#endif  // KEEL_BACKENDS_VULKAN_DEVICE_H_
