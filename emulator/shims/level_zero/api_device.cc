// SPDX-License-Identifier: Apache-2.0
// The driver, devices and contexts.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "emulator/shims/level_zero/api.h"
#include "emulator/shims/level_zero/handles.h"

using namespace keel::emulator::level_zero;  // NOLINT: the functions below are C functions
using keel::emulator::DeviceOptions;
using keel::emulator::Status;

namespace {

// Passes |count| values: a count of 0 asks for the number alone.
template <typename Value, typename Fill>
ze::Result give(uint32_t there, uint32_t* in_out_count, Value* values, Fill&& fill) {
  if (in_out_count == nullptr) return ze::kInvalidNullPointer;
  if (*in_out_count == 0) {
    *in_out_count = there;
    return ze::kSuccess;
  }
  *in_out_count = std::min(*in_out_count, there);
  for (uint32_t i = 0; values != nullptr && i < *in_out_count; ++i) fill(i, &values[i]);
  return ze::kSuccess;
}

void require_driver(const char* function, Driver& driver, ze::Driver handle) {
  if (driver.handle() != handle) end_process(function, "no driver has this handle");
}

template <size_t size>
void set_text(char (&out)[size], const std::string& text) {
  const size_t length = std::min(size - 1, text.size());
  std::memcpy(out, text.data(), length);
  out[length] = '\0';
}

void set_uuid(uint8_t (&out)[16], uint32_t index) {
  constexpr char kPrefix[] = "keel-level0-";
  std::memcpy(out, kPrefix, 12);
  std::memcpy(out + 12, &index, 4);
}

}  // namespace

extern "C" {

ze::Result zeInit(uint32_t /*flags*/) {
  return Driver::get().init();
}

ze::Result zeDriverGet(uint32_t* count, ze::Driver* drivers) {
  return answer("zeDriverGet", [&](Driver& driver) {
    return give(1, count, drivers, [&](uint32_t, ze::Driver* out) { *out = driver.handle(); });
  });
}

ze::Result zeDriverGetApiVersion(ze::Driver handle, uint32_t* version) {
  return answer("zeDriverGetApiVersion", [&](Driver& driver) {
    require_driver("zeDriverGetApiVersion", driver, handle);
    if (version == nullptr) return ze::kInvalidNullPointer;
    *version = static_cast<uint32_t>(driver.settings().major << 16 | driver.settings().minor);
    return ze::kSuccess;
  });
}

ze::Result zeDriverGetProperties(ze::Driver handle, ze::DriverProperties* properties) {
  return answer("zeDriverGetProperties", [&](Driver& driver) {
    require_driver("zeDriverGetProperties", driver, handle);
    if (properties == nullptr) return ze::kInvalidNullPointer;
    set_uuid(properties->uuid, UINT32_MAX);
    properties->version = 1;
    return ze::kSuccess;
  });
}

ze::Result zeDeviceGet(ze::Driver handle, uint32_t* count, ze::Device* devices) {
  return answer("zeDeviceGet", [&](Driver& driver) {
    require_driver("zeDeviceGet", driver, handle);
    return give(static_cast<uint32_t>(driver.chips().size()), count, devices,
                [&](uint32_t i, ze::Device* out) { *out = driver.chips()[i]->handle(); });
  });
}

ze::Result zeDeviceGetProperties(ze::Device device, ze::DeviceProperties* properties) {
  return answer("zeDeviceGetProperties", [&](Driver& driver) {
    const DeviceOptions& options = driver.chip("zeDeviceGetProperties", device).options();
    if (properties == nullptr) return ze::kInvalidNullPointer;
    properties->type = ze::kDeviceTypeGpu;
    properties->vendor_id = 0x8086;
    properties->device_id = 0;
    properties->flags = 0;
    properties->max_alloc_bytes = options.memory_bytes;
    properties->threads_per_eu = 8;
    properties->eu_simd_width = 16;
    properties->eus_per_subslice = 2;
    properties->subslices_per_slice = 2;
    properties->slices = 1;
    properties->timer_resolution = 1;
    properties->timestamp_valid_bits = 64;
    properties->kernel_timestamp_valid_bits = 64;
    set_uuid(properties->uuid, options.index);
    const auto& given = driver.settings().chips.uuid;
    if (given && options.index == 0) {
      std::memcpy(properties->uuid, given->data(), given->size());
    }
    set_text(properties->name, options.profile
                                   ? options.profile->name
                                   : fmt::format("Emulated Level Zero GPU {}", options.index));
    return ze::kSuccess;
  });
}

ze::Result zeDeviceGetComputeProperties(ze::Device device, ze::ComputeProperties* properties) {
  return answer("zeDeviceGetComputeProperties", [&](Driver& driver) {
    (void)driver.chip("zeDeviceGetComputeProperties", device);
    if (properties == nullptr) return ze::kInvalidNullPointer;
    properties->max_group_size = 1024;
    properties->max_group_x = properties->max_group_y = properties->max_group_z = 1024;
    properties->max_groups_x = properties->max_groups_y = properties->max_groups_z = UINT32_MAX;
    properties->max_local_bytes = static_cast<uint32_t>(driver.settings().local_kib << 10);
    properties->subgroup_sizes_count = 2;
    properties->subgroup_sizes[0] = 16;
    properties->subgroup_sizes[1] = static_cast<uint32_t>(driver.settings().subgroup);
    return ze::kSuccess;
  });
}

ze::Result zeDeviceGetModuleProperties(ze::Device device, ze::ModuleProperties* properties) {
  return answer("zeDeviceGetModuleProperties", [&](Driver& driver) {
    (void)driver.chip("zeDeviceGetModuleProperties", device);
    if (properties == nullptr) return ze::kInvalidNullPointer;
    properties->spirv_version = 1 << 16 | 2 << 8;
    properties->flags = ze::kModuleFloat16;
    if (driver.settings().doubles != 0) properties->flags |= ze::kModuleFloat64;
    properties->max_arguments_bytes = 2048;
    return ze::kSuccess;
  });
}

ze::Result zeDeviceGetCommandQueueGroupProperties(ze::Device device, uint32_t* count,
                                                  ze::QueueGroupProperties* properties) {
  return answer("zeDeviceGetCommandQueueGroupProperties", [&](Driver& driver) {
    (void)driver.chip("zeDeviceGetCommandQueueGroupProperties", device);
    const uint32_t groups = driver.settings().copy_engine != 0 ? 2 : 1;
    return give(groups, count, properties, [](uint32_t i, ze::QueueGroupProperties* out) {
      out->flags = i == 0 ? ze::kQueueGroupCompute | ze::kQueueGroupCopy : ze::kQueueGroupCopy;
      // A copy engine fills with one byte.
      out->max_fill_pattern = i == 0 ? 8 : 1;
      out->queues = 1;
    });
  });
}

ze::Result zeDeviceGetMemoryProperties(ze::Device device, uint32_t* count,
                                       ze::MemoryProperties* properties) {
  return answer("zeDeviceGetMemoryProperties", [&](Driver& driver) {
    const Chip& chip = driver.chip("zeDeviceGetMemoryProperties", device);
    return give(1, count, properties, [&](uint32_t, ze::MemoryProperties* out) {
      out->flags = 0;
      out->total_bytes = chip.options().memory_bytes;
      set_text(out->name, "emulated");
    });
  });
}

ze::Result zeDeviceCanAccessPeer(ze::Device device, ze::Device peer, uint8_t* value) {
  return answer("zeDeviceCanAccessPeer", [&](Driver& driver) {
    (void)driver.chip("zeDeviceCanAccessPeer", device);
    (void)driver.chip("zeDeviceCanAccessPeer", peer);
    if (value == nullptr) return ze::kInvalidNullPointer;
    *value = 1;
    return ze::kSuccess;
  });
}

ze::Result zeDeviceGetStatus(ze::Device device) {
  return answer("zeDeviceGetStatus", [&](Driver& driver) {
    std::shared_ptr<keel::emulator::Device> chip;
    return result_of(driver.chip("zeDeviceGetStatus", device).device(&chip));
  });
}

ze::Result zeDevicePciGetPropertiesExt(ze::Device device, ze::PciProperties* properties) {
  return answer("zeDevicePciGetPropertiesExt", [&](Driver& driver) {
    const Chip& chip = driver.chip("zeDevicePciGetPropertiesExt", device);
    if (properties == nullptr) return ze::kInvalidNullPointer;
    properties->domain = kPciDomain;
    properties->bus = 1 + chip.options().index;
    properties->device = 0;
    properties->function = 0;
    return ze::kSuccess;
  });
}

ze::Result zeContextCreate(ze::Driver handle, const ze::ContextDesc* desc, ze::Context* context) {
  return answer("zeContextCreate", [&](Driver& driver) {
    require_driver("zeContextCreate", driver, handle);
    if (desc == nullptr || context == nullptr) return ze::kInvalidNullPointer;
    *context = Contexts::get().add(std::make_shared<ContextObject>());
    return ze::kSuccess;
  });
}

ze::Result zeContextDestroy(ze::Context context) {
  return answer("zeContextDestroy", [&](Driver&) {
    Contexts::get().remove("zeContextDestroy", context);
    return ze::kSuccess;
  });
}

}  // extern "C"
