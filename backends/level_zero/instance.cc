// SPDX-License-Identifier: Apache-2.0
#include "backends/level_zero/instance.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <keel/plugin_kit.hpp>
#include <string_view>
#include <vector>

#include "backends/level_zero/device.h"
#include "backends/level_zero/kernels.h"
#include "backends/level_zero/result.h"

namespace keel::gpu {
namespace {

constexpr uint64_t kCapabilities = KEEL_CAPABILITY_PINNED | KEEL_CAPABILITY_MANAGED |
                                   KEEL_CAPABILITY_ASYNC | KEEL_CAPABILITY_PAGEABLE_ASYNC |
                                   KEEL_CAPABILITY_NATIVE_GATE;

}  // namespace

keel_status Instance::create(const keel_instance_settings* settings,
                             std::unique_ptr<Instance>* out_instance) {
  // The user must not control the environment of a process with more rights than the user.
  const char* const value = secure_getenv("KEEL_LEVEL_ZERO_LIBRARY_FOLDER");
  std::string folder = value == nullptr ? "" : value;
  const uint32_t count = settings == nullptr ? 0 : settings->count;
  for (uint32_t i = 0; i < count; ++i) {
    if (std::string_view(settings->keys[i]) != "library_folder") {
      return kit::fail(KEEL_INVALID_ARGUMENT, "level_zero: setting '%s' is not known",
                       settings->keys[i]);
    }
    folder = settings->values[i];
  }
  out_instance->reset(new Instance(folder));
  return KEEL_OK;
}

keel_status Instance::describe(uint32_t ordinal, keel_device_info* out_info) const {
  if (ordinal >= loader_.gpus().size()) {
    return kit::fail(KEEL_NOT_FOUND, "level_zero: there is no device %u", ordinal);
  }
  const ze::Functions& ze = loader_.functions();
  const Gpu& gpu = loader_.gpus()[ordinal];
  ze::DeviceProperties properties;
  ze::Result result = ze.DeviceGetProperties(gpu.device, &properties);
  if (result != ze::kSuccess) {
    return kit::fail(status_of(result), "level_zero: device %u: %s", ordinal,
                     text_of("zeDeviceGetProperties", result).c_str());
  }
  properties.name[sizeof(properties.name) - 1] = '\0';
  kit::copy_text(out_info->name, std::string(properties.name).c_str());
  // Level Zero has no name of a device's architecture.
  char architecture[32];
  std::snprintf(architecture, sizeof(architecture), "pci_%04x_%04x", properties.vendor_id,
                properties.device_id);
  kit::copy_text(out_info->architecture, architecture);
  kit::copy_text(out_info->driver, loader_.description().c_str());
  ze::PciProperties pci;
  if (ze.DevicePciGetPropertiesExt != nullptr &&
      ze.DevicePciGetPropertiesExt(gpu.device, &pci) == ze::kSuccess) {
    std::snprintf(out_info->pci_address, sizeof(out_info->pci_address), "%04x:%02x:%02x.%x",
                  pci.domain, pci.bus, pci.device, pci.function);
  }
  std::memcpy(out_info->uuid, properties.uuid, sizeof(out_info->uuid));
  out_info->type = KEEL_DEVICE_GPU;
  out_info->numa_node = -1;
  out_info->capabilities = kCapabilities;
  QueueGroups groups;
  if (find_queue_groups(ze, gpu.device, &groups) && groups.max_fill_pattern >= 8) {
    out_info->capabilities |= KEEL_CAPABILITY_FILL;
  }
  if (properties.timer_resolution != 0) out_info->capabilities |= KEEL_CAPABILITY_TIMING;
  if (properties.max_queue_priority > 1) out_info->capabilities |= KEEL_CAPABILITY_PRIORITY;
  ze::ModuleProperties modules;
  if (ze.DeviceGetModuleProperties(gpu.device, &modules) == ze::kSuccess &&
      modules.spirv_version != 0) {
    out_info->capabilities |= KEEL_CAPABILITY_KERNELS;
  }
  if (loader_.host_imports(gpu.driver) != nullptr) {
    out_info->capabilities |= KEEL_CAPABILITY_HOST_REGISTER;
  }
  if (loader_.can_share_memory(gpu.driver)) out_info->capabilities |= KEEL_CAPABILITY_EXPORT;
  uint64_t free = 0;
  uint64_t total = 0;
  if (read_memory_state(ze, gpu.device, &free, &total, &result)) {
    out_info->capabilities |= KEEL_CAPABILITY_MEMORY_INFO;
  }
  if (loader_.has_peer_copies()) out_info->capabilities |= KEEL_CAPABILITY_PEER_COPY;
  if (Kernels::are_for(ze, gpu.device)) out_info->capabilities |= KEEL_CAPABILITY_OPS;
  uint32_t count = 0;
  result = ze.DeviceGetMemoryProperties(gpu.device, &count, nullptr);
  std::vector<ze::MemoryProperties> memories(count);
  if (result == ze::kSuccess && count != 0 &&
      ze.DeviceGetMemoryProperties(gpu.device, &count, memories.data()) == ze::kSuccess) {
    for (const ze::MemoryProperties& memory : memories) {
      out_info->memory_bytes += memory.total_bytes;
    }
  }
  out_info->max_alloc_bytes = properties.max_alloc_bytes;
  out_info->alignment = 64;  // which Device::alloc asks for
  out_info->compute_units =
      properties.slices * properties.subslices_per_slice * properties.eus_per_subslice;
  return KEEL_OK;
}

}  // namespace keel::gpu
