// SPDX-License-Identifier: Apache-2.0
#include "backends/vulkan/physical_device.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <keel/plugin_kit.hpp>
#include <thread>
#include <vector>

namespace keel::vulkan {

namespace {

// Streams share a few hardware queues; more queues add no useful overlap.
constexpr uint32_t kMaxQueues = 8;
constexpr uint32_t kAlignment = 64;

bool has_extension(const std::vector<VkExtensionProperties>& extensions, const char* name) {
  return std::any_of(extensions.begin(), extensions.end(), [&](const VkExtensionProperties& e) {
    return std::strcmp(e.extensionName, name) == 0;
  });
}

std::vector<VkExtensionProperties> list_extensions(const InstanceFunctions& vk,
                                                   VkPhysicalDevice device) {
  uint32_t count = 0;
  vk.EnumerateDeviceExtensionProperties(device, nullptr, &count, nullptr);
  std::vector<VkExtensionProperties> extensions(count);
  if (vk.EnumerateDeviceExtensionProperties(device, nullptr, &count, extensions.data()) < 0) {
    count = 0;
  }
  extensions.resize(count);
  return extensions;
}

// Returns the first memory type with all |required| and most |wanted| flags; -1 if there is none.
int find_memory_type(const VkPhysicalDeviceMemoryProperties& memory, VkMemoryPropertyFlags required,
                     VkMemoryPropertyFlags wanted) {
  int best = -1;
  int best_score = -1;
  for (uint32_t i = 0; i < memory.memoryTypeCount; ++i) {
    const VkMemoryPropertyFlags flags = memory.memoryTypes[i].propertyFlags;
    if ((flags & required) != required) continue;
    // Protected and device-coherent types are slow or unusable for plain buffers.
    if ((flags & ~VkMemoryPropertyFlags{0xf}) != 0) continue;
    const int score = __builtin_popcount(flags & wanted);
    if (score > best_score) {
      best = static_cast<int>(i);
      best_score = score;
    }
  }
  return best;
}

// Chooses the family with compute and the most queues; families without graphics win ties.
bool choose_queue_family(const InstanceFunctions& vk, PhysicalDevice* device,
                         uint32_t* out_timestamp_bits) {
  uint32_t count = 0;
  vk.GetPhysicalDeviceQueueFamilyProperties(device->handle, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  vk.GetPhysicalDeviceQueueFamilyProperties(device->handle, &count, families.data());
  int best_score = -1;
  for (uint32_t i = 0; i < count; ++i) {
    if ((families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) == 0) continue;
    const uint32_t queues = std::min(families[i].queueCount, kMaxQueues);
    const bool graphics = (families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT) != 0;
    const int score = static_cast<int>(2 * queues) + (graphics ? 0 : 1);
    if (queues == 0 || score <= best_score) continue;
    best_score = score;
    device->queue_family = i;
    device->queue_count = queues;
    *out_timestamp_bits = families[i].timestampValidBits;
  }
  return best_score >= 0;
}

bool choose_memory_types(PhysicalDevice* device) {
  constexpr VkMemoryPropertyFlags kHost =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  const VkPhysicalDeviceMemoryProperties& memory = device->memory;
  const bool unified = device->is_cpu() || device->type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
  const int shared = find_memory_type(
      memory, kHost | VK_MEMORY_PROPERTY_HOST_CACHED_BIT | VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0);
  const int local = find_memory_type(memory, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0);
  const int pinned = find_memory_type(memory, kHost, VK_MEMORY_PROPERTY_HOST_CACHED_BIT);
  device->host_reaches_device_memory = unified && shared >= 0;
  const int chosen = device->host_reaches_device_memory ? shared : local;
  if (chosen < 0 || pinned < 0) return false;
  device->device_memory_type = static_cast<uint32_t>(chosen);
  device->pinned_memory_type = static_cast<uint32_t>(pinned);
  return true;
}

int32_t numa_node_of(const char* pci_address) {
  char path[96];
  std::snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/numa_node", pci_address);
  int node = -1;
  if (std::FILE* file = std::fopen(path, "r"); file != nullptr) {
    if (std::fscanf(file, "%d", &node) != 1) node = -1;
    std::fclose(file);
  }
  return node;
}

}  // namespace

std::optional<PhysicalDevice> PhysicalDevice::examine(const InstanceFunctions& vk,
                                                      VkPhysicalDevice handle,
                                                      std::string* out_why) {
  PhysicalDevice device;
  device.handle = handle;

  VkPhysicalDeviceProperties2 properties = {};
  properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  vk.GetPhysicalDeviceProperties2(handle, &properties);
  if (properties.properties.apiVersion < VK_API_VERSION_1_2) {
    *out_why = "its driver is older than Vulkan 1.2";
    return std::nullopt;
  }

  const std::vector<VkExtensionProperties> extensions = list_extensions(vk, handle);
  const bool imports = has_extension(extensions, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
  const bool has_pci = has_extension(extensions, VK_EXT_PCI_BUS_INFO_EXTENSION_NAME);
  device.memory_budget = has_extension(extensions, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);

  VkPhysicalDeviceVulkan11Properties v11 = {};
  v11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES;
  VkPhysicalDeviceVulkan12Properties v12 = {};
  v12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES;
  VkPhysicalDeviceExternalMemoryHostPropertiesEXT import = {};
  import.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT;
  VkPhysicalDevicePCIBusInfoPropertiesEXT pci = {};
  pci.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT;
  v11.pNext = &v12;
  properties.pNext = &v11;
  void** tail = &v12.pNext;
  if (imports) {
    *tail = &import;
    tail = &import.pNext;
  }
  if (has_pci) *tail = &pci;
  vk.GetPhysicalDeviceProperties2(handle, &properties);

  VkPhysicalDeviceFeatures2 features = {};
  features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  VkPhysicalDeviceVulkan11Features features11 = {};
  features11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
  VkPhysicalDeviceVulkan12Features features12 = {};
  features12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
  features.pNext = &features11;
  features11.pNext = &features12;
  vk.GetPhysicalDeviceFeatures2(handle, &features);

  constexpr VkSubgroupFeatureFlags kSubgroup = VK_SUBGROUP_FEATURE_BASIC_BIT |
                                               VK_SUBGROUP_FEATURE_ARITHMETIC_BIT |
                                               VK_SUBGROUP_FEATURE_BALLOT_BIT;
  if (features12.bufferDeviceAddress == VK_FALSE) {
    *out_why = "it lacks bufferDeviceAddress";
    return std::nullopt;
  }
  if (features12.timelineSemaphore == VK_FALSE) {
    *out_why = "it lacks timelineSemaphore";
    return std::nullopt;
  }
  if ((v11.subgroupSupportedOperations & kSubgroup) != kSubgroup ||
      (v11.subgroupSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT) == 0) {
    *out_why = "it lacks subgroup arithmetic and ballots in compute shaders";
    return std::nullopt;
  }

  const VkPhysicalDeviceLimits& limits = properties.properties.limits;
  device.type = properties.properties.deviceType;
  std::memcpy(device.pipeline_cache_uuid, properties.properties.pipelineCacheUUID, VK_UUID_SIZE);
  device.subgroup_size = v11.subgroupSize;
  device.max_workgroup_count = limits.maxComputeWorkGroupCount[0];
  device.import_alignment = imports ? import.minImportedHostPointerAlignment : 0;
  const bool shuffles = (v11.subgroupSupportedOperations & VK_SUBGROUP_FEATURE_SHUFFLE_BIT) != 0;
  const bool lanes_suit = device.subgroup_size == 4 || device.subgroup_size == 8 ||
                          device.subgroup_size == 16;  // matmul_texel.comp
  if (device.is_cpu() && shuffles && lanes_suit &&
      has_extension(extensions, VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME) &&
      features.features.robustBufferAccess != VK_FALSE) {
    device.max_texels = limits.maxTexelBufferElements;
  }
  device.storage_16bit = features11.storageBuffer16BitAccess != VK_FALSE;
  device.float_controls.nan = v12.shaderSignedZeroInfNanPreserveFloat32 != VK_FALSE;
  // Without independence a mode of 32 bits holds for all widths.
  device.float_controls.subnormal =
      v12.shaderDenormPreserveFloat32 != VK_FALSE &&
      v12.denormBehaviorIndependence != VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE;
  KernelLimits& kernels = device.kernels;
  kernels.int64 = features.features.shaderInt64 != VK_FALSE;
  kernels.int16 = features.features.shaderInt16 != VK_FALSE;
  kernels.int8 = features12.shaderInt8 != VK_FALSE;
  kernels.float64 = features.features.shaderFloat64 != VK_FALSE;
  kernels.float16 = features12.shaderFloat16 != VK_FALSE;
  kernels.storage_8bit = features12.storageBuffer8BitAccess != VK_FALSE;
  kernels.subgroup_operations = v11.subgroupSupportedOperations;
  std::copy_n(limits.maxComputeWorkGroupCount, 3, kernels.groups);
  std::copy_n(limits.maxComputeWorkGroupSize, 3, kernels.workgroup);
  kernels.invocations = limits.maxComputeWorkGroupInvocations;
  kernels.push_constant_bytes = limits.maxPushConstantsSize;

  uint32_t timestamp_bits = 0;
  if (!choose_queue_family(vk, &device, &timestamp_bits)) {
    *out_why = "it has no compute queue";
    return std::nullopt;
  }
  device.timestamp_period = limits.timestampPeriod;
  device.timestamp_mask = timestamp_bits == 0 ? 0 : ~uint64_t{0} >> (64 - timestamp_bits);

  VkPhysicalDeviceMemoryProperties2 memory = {};
  memory.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
  vk.GetPhysicalDeviceMemoryProperties2(handle, &memory);
  device.memory = memory.memoryProperties;
  if (!choose_memory_types(&device)) {
    *out_why = "it has no suitable memory types";
    return std::nullopt;
  }

  keel_device_info& info = device.info;
  info.header = kit::header<keel_device_info>(KEEL_STRUCT_DEVICE_INFO);
  std::snprintf(info.name, sizeof(info.name), "%.127s", properties.properties.deviceName);
  std::snprintf(info.architecture, sizeof(info.architecture), "spirv-1.5 subgroup %u",
                device.subgroup_size);
  std::snprintf(info.driver, sizeof(info.driver), "%.50s %.60s", v12.driverName, v12.driverInfo);
  if (has_pci) {
    std::snprintf(info.pci_address, sizeof(info.pci_address), "%04x:%02x:%02x.%x", pci.pciDomain,
                  pci.pciBus, pci.pciDevice, pci.pciFunction);
  }
  info.numa_node = has_pci ? numa_node_of(info.pci_address) : -1;
  std::memcpy(info.uuid, v11.deviceUUID, sizeof(info.uuid));
  info.type = device.is_cpu()                                ? KEEL_DEVICE_CPU
              : device.type == VK_PHYSICAL_DEVICE_TYPE_OTHER ? KEEL_DEVICE_OTHER
                                                             : KEEL_DEVICE_GPU;
  const uint32_t heap = device.memory.memoryTypes[device.device_memory_type].heapIndex;
  info.memory_bytes = device.memory.memoryHeaps[heap].size;
  info.max_alloc_bytes = std::min(v11.maxMemoryAllocationSize, info.memory_bytes);
  info.alignment = kAlignment;
  info.compute_units = device.is_cpu() ? std::thread::hardware_concurrency() : 0;
  info.hardware_queues = device.queue_count;
  info.copy_alignment = 4;
  info.capabilities = KEEL_CAPABILITY_PINNED | KEEL_CAPABILITY_ASYNC | KEEL_CAPABILITY_NOTIFY |
                      KEEL_CAPABILITY_KERNELS | KEEL_CAPABILITY_OPS | KEEL_CAPABILITY_FILL;
  if (device.timestamp_mask != 0) info.capabilities |= KEEL_CAPABILITY_TIMING;
  if (device.import_alignment != 0) info.capabilities |= KEEL_CAPABILITY_HOST_REGISTER;
  if (device.host_reaches_device_memory) info.capabilities |= KEEL_CAPABILITY_HOST_ALIAS;
  if (device.memory_budget) info.capabilities |= KEEL_CAPABILITY_MEMORY_INFO;
  return device;
}

}  // namespace keel::vulkan
