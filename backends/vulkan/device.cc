// SPDX-License-Identifier: Apache-2.0
#include "backends/vulkan/device.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "backends/vulkan/result.h"

namespace keel::vulkan {

keel_status Device::open(const Instance& instance, const PhysicalDevice& physical,
                         std::unique_ptr<Device>* out_device) {
  std::unique_ptr<Device> device(new Device(instance, physical));
  const keel_status status = device->start();
  if (status == KEEL_OK) *out_device = std::move(device);
  return status;
}

Device::~Device() {
  if (handle_ == VK_NULL_HANDLE) return;
  if (vk_.DeviceWaitIdle != nullptr) vk_.DeviceWaitIdle(handle_);
  for (auto& queue : queues_) queue.reset();
  pipelines_.reset();
  memory_.reset();
  if (vk_.DestroyDevice != nullptr) vk_.DestroyDevice(handle_, nullptr);
}

keel_status Device::start() {
  const InstanceFunctions& instance = instance_.functions();
  std::array<float, kMaxQueues> priorities;
  priorities.fill(1.0F);
  VkDeviceQueueCreateInfo queue_info = {};
  queue_info.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
  queue_info.queueFamilyIndex = physical_.queue_family;
  queue_info.queueCount = physical_.queue_count;
  queue_info.pQueuePriorities = priorities.data();

  VkPhysicalDeviceVulkan12Features features12 = {};
  features12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
  features12.bufferDeviceAddress = VK_TRUE;
  features12.timelineSemaphore = VK_TRUE;
  const auto enable = [](bool supported) { return supported ? VK_TRUE : VK_FALSE; };
  features12.shaderInt8 = enable(physical_.kernels.int8);
  features12.shaderFloat16 = enable(physical_.kernels.float16);
  features12.storageBuffer8BitAccess = enable(physical_.kernels.storage_8bit);
  VkPhysicalDeviceVulkan11Features features11 = {};
  features11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
  features11.pNext = &features12;
  features11.storageBuffer16BitAccess = enable(physical_.storage_16bit);

  std::vector<const char*> extensions;
  if (physical_.import_alignment != 0) {
    extensions.push_back(VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
  }
  VkPhysicalDeviceFeatures2 features = {};
  features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  features.pNext = &features11;
  features.features.shaderInt64 = enable(physical_.kernels.int64);
  features.features.shaderInt16 = enable(physical_.kernels.int16);
  features.features.shaderFloat64 = enable(physical_.kernels.float64);
  if (physical_.max_texels != 0) {
    extensions.push_back(VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME);
    features.features.robustBufferAccess = VK_TRUE;  // matmul_texel.comp reads past the end
  }
  if (physical_.memory_budget) extensions.push_back(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  VkDeviceCreateInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  info.pNext = &features;
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue_info;
  info.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();
  keel_status status = to_status(instance.CreateDevice(physical_.handle, &info, nullptr, &handle_),
                                 "vkCreateDevice");
  if (status != KEEL_OK) {
    handle_ = VK_NULL_HANDLE;
    return status;
  }
  const char* missing = nullptr;
  if (!vk_.load(instance.GetDeviceProcAddr, handle_, &missing)) {
    return kit::fail(KEEL_INTERNAL, "the Vulkan driver lacks %s", missing);
  }
  memory_.emplace(vk_, handle_, physical_);
  pipelines_.emplace(vk_, handle_, physical_);
  status = pipelines_->open();
  for (uint32_t i = 0; i < physical_.queue_count && status == KEEL_OK; ++i) {
    queues_[i] = std::make_unique<Queue>(vk_, handle_, &lost_);
    status = queues_[i]->open(physical_.queue_family, i);
  }
  return status;
}

Queue& Device::assign_queue() {
  const uint32_t turn = next_queue_.fetch_add(1, std::memory_order_relaxed);
  return *queues_[turn % physical_.queue_count];
}

keel_status Device::memory_info(uint64_t* out_free, uint64_t* out_total) const {
  if (lost()) return state();
  if (!physical_.memory_budget) {
    return kit::fail(KEEL_UNSUPPORTED, "the device lacks VK_EXT_memory_budget");
  }
  VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {};
  budget.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT;
  VkPhysicalDeviceMemoryProperties2 properties = {};
  properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
  properties.pNext = &budget;
  instance_.functions().GetPhysicalDeviceMemoryProperties2(physical_.handle, &properties);
  const uint32_t heap = physical_.memory.memoryTypes[physical_.device_memory_type].heapIndex;
  const uint64_t used = std::min(budget.heapUsage[heap], budget.heapBudget[heap]);
  *out_free = budget.heapBudget[heap] - used;
  *out_total = physical_.info.memory_bytes;
  return KEEL_OK;
}

keel_status Device::native_handle(uint32_t which, void** out_handle) const {
  switch (which) {
    case 0:
      *out_handle = handle_;
      return KEEL_OK;
    case 1:
      *out_handle = instance_.handle();
      return KEEL_OK;
    case 2:
      *out_handle = physical_.handle;
      return KEEL_OK;
    case 3:
      *out_handle = reinterpret_cast<void*>(uintptr_t{physical_.queue_family});
      return KEEL_OK;
    default:
      return kit::fail(KEEL_UNSUPPORTED, "vulkan has no native handle %u", which);
  }
}

}  // namespace keel::vulkan
