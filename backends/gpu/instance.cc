// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/instance.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <keel/plugin_kit.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "backends/gpu/ccl_table.h"
#include "backends/gpu/device.h"
#include "backends/gpu/ipc.h"
#include "backends/gpu/kernels.h"
#include "backends/gpu/result.h"
#include "backends/gpu/result_codes.h"

namespace keel::gpu {
namespace {

constexpr uint64_t kCapabilities = KEEL_CAPABILITY_PINNED | KEEL_CAPABILITY_HOST_REGISTER |
                                   KEEL_CAPABILITY_PEER_COPY | KEEL_CAPABILITY_ASYNC |
                                   KEEL_CAPABILITY_TIMING | KEEL_CAPABILITY_KERNELS |
                                   KEEL_CAPABILITY_MEMORY_INFO | KEEL_CAPABILITY_FILL;

}  // namespace

keel_status Instance::create(const keel_instance_settings* settings,
                             std::unique_ptr<Instance>* out_instance) {
  // The user must not control the environment of a process with more rights than the user.
  const auto environment = [](const char* name) {
    const char* const value = secure_getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  std::optional<std::string> folder = environment(kFolderVariable);
  std::optional<std::string> ccl = environment(kCclFolderVariable);
  std::optional<std::string> products = environment(kProductsFolderVariable);
  std::string file = kDriverFile;
  NcclSettings told_ccl;
  keel_status status = told_ccl.read_environment();
  if (status != KEEL_OK) return status;
  const uint32_t count = settings == nullptr ? 0 : settings->count;
  for (uint32_t i = 0; i < count; ++i) {
    const std::string_view key = settings->keys[i];
    if (key == "library_folder") {
      folder = settings->values[i];
    } else if (key == "driver_file") {
      file = settings->values[i];
      if (file.empty() || file.find('/') != std::string::npos) {
        return kit::fail(KEEL_INVALID_ARGUMENT, KEEL_GPU ": driver_file '%s' is no file name",
                         settings->values[i]);
      }
    } else if (key == kCclFolderKey) {
      ccl = settings->values[i];
    } else if (key == kProductsFolderKey) {
      products = settings->values[i];
    } else if (told_ccl.take(key, settings->values[i], &status)) {
      if (status != KEEL_OK) return status;
    } else {
      return kit::fail(KEEL_INVALID_ARGUMENT, KEEL_GPU ": setting '%s' is not known",
                       settings->keys[i]);
    }
  }
  status = told_ccl.check();
  if (status != KEEL_OK) return status;
  std::string drivers = folder.value_or("");
  LibrarySettings libraries = {ccl.value_or(drivers), products.value_or(drivers),
                               std::move(told_ccl)};
  out_instance->reset(new Instance(std::move(drivers), std::move(file), std::move(libraries)));
  return KEEL_OK;
}

int Instance::lowest_capability() const {
  std::call_once(capability_asked_, [&] {
    const Functions& api = driver().functions();
    for (int ordinal = 0; ordinal < driver().device_count(); ++ordinal) {
      NativeDevice device = 0;
      const bool is_there = api.DeviceGet(&device, ordinal) == kSuccess;
      const int capability = is_there ? capability_of(api, device) : 0;
      lowest_capability_ = ordinal == 0 ? capability : std::min(lowest_capability_, capability);
    }
  });
  return lowest_capability_;
}

bool Instance::has_kernels(uint32_t ordinal, int capability,
                           const std::string& architecture) const {
  if (!Kernels::are_for(capability)) return false;
  if (Kernels::surely_load(driver().version())) return true;
  const std::lock_guard lock(mutex_);
  if (const auto tried = loads_kernels_.find(architecture); tried != loads_kernels_.end()) {
    return tried->second;
  }
  std::unique_ptr<Device> device;
  // A failure is not cached: a device in use by another process may be free the next time.
  if (Device::open(driver(), ordinal, libraries_, &device) != KEEL_OK) return false;
  return loads_kernels_[architecture] = device->kernels() != nullptr;
}

keel_status Instance::describe(uint32_t ordinal, keel_device_info* out_info) const {
  Driver& driver = this->driver();
  const Functions& api = driver.functions();
  if (ordinal >= static_cast<uint32_t>(driver.device_count())) {
    return kit::fail(KEEL_NOT_FOUND, KEEL_GPU ": there is no device %u", ordinal);
  }
  NativeDevice device = 0;
  Result result = api.DeviceGet(&device, static_cast<int>(ordinal));
  size_t memory = 0;
  if (result == kSuccess) result = api.DeviceTotalMem(&memory, device);
  if (result == kSuccess) {
    result = api.DeviceGetName(out_info->name, sizeof(out_info->name), device);
  }
  if (result != kSuccess) {
    return kit::fail(status_of(result), KEEL_GPU ": device %u: %s", ordinal,
                     driver.text_of(Names::DeviceGet, result).c_str());
  }
  kit::copy_text(out_info->driver, driver.description().c_str());
  if (api.DeviceGetPCIBusId(out_info->pci_address, sizeof(out_info->pci_address), device) !=
      kSuccess) {
    kit::copy_text(out_info->pci_address, "");
  }
  NativeUuid uuid = {};
  (void)api.DeviceGetUuid(&uuid, device);  // zero is "unknown"
  std::memcpy(out_info->uuid, uuid.bytes, sizeof(out_info->uuid));
  out_info->type = KEEL_DEVICE_GPU;
  out_info->capabilities = kCapabilities;
  describe_device(api, device, out_info);
  if (has_kernels(ordinal, capability_of(api, device), out_info->architecture)) {
    out_info->capabilities |= KEEL_CAPABILITY_OPS;
  }
  if (can_share_memory(api, device)) out_info->capabilities |= KEEL_CAPABILITY_EXPORT;
  if (has_collectives(ccl_folder())) out_info->capabilities |= KEEL_CAPABILITY_CCL;
  out_info->memory_bytes = memory;
  out_info->max_alloc_bytes = 0;
  out_info->alignment = 256;
  int multiprocessors = 0;
  (void)api.DeviceGetAttribute(&multiprocessors, kMultiprocessorCount, device);
  out_info->compute_units = static_cast<uint32_t>(multiprocessors);
  out_info->hardware_queues = 0;
  out_info->copy_alignment = 0;
  return KEEL_OK;
}

}  // namespace keel::gpu
