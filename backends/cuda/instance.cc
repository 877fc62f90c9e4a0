// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/instance.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <keel/plugin_kit.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "backends/cuda/ccl_table.h"
#include "backends/cuda/device.h"
#include "backends/cuda/ipc.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/result.h"

namespace keel::cuda {
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
  std::optional<std::string> folder = environment("KEEL_CUDA_LIBRARY_FOLDER");
  std::optional<std::string> nccl = environment("KEEL_NCCL_LIBRARY_FOLDER");
  std::optional<std::string> cublaslt = environment("KEEL_CUBLASLT_LIBRARY_FOLDER");
  std::string file = "libcuda.so.1";
  NcclSettings told_nccl;
  keel_status status = told_nccl.read_environment();
  if (status != KEEL_OK) return status;
  const uint32_t count = settings == nullptr ? 0 : settings->count;
  for (uint32_t i = 0; i < count; ++i) {
    const std::string_view key = settings->keys[i];
    if (key == "library_folder") {
      folder = settings->values[i];
    } else if (key == "driver_file") {
      file = settings->values[i];
      if (file.empty() || file.find('/') != std::string::npos) {
        return kit::fail(KEEL_INVALID_ARGUMENT, "cuda: driver_file '%s' is no file name",
                         settings->values[i]);
      }
    } else if (key == "nccl_folder") {
      nccl = settings->values[i];
    } else if (key == "cublaslt_folder") {
      cublaslt = settings->values[i];
    } else if (told_nccl.take(key, settings->values[i], &status)) {
      if (status != KEEL_OK) return status;
    } else {
      return kit::fail(KEEL_INVALID_ARGUMENT, "cuda: setting '%s' is not known", settings->keys[i]);
    }
  }
  status = told_nccl.check();
  if (status != KEEL_OK) return status;
  std::string drivers = folder.value_or("");
  LibrarySettings libraries = {nccl.value_or(drivers), cublaslt.value_or(drivers),
                               std::move(told_nccl)};
  out_instance->reset(new Instance(std::move(drivers), std::move(file), std::move(libraries)));
  return KEEL_OK;
}

int Instance::lowest_capability() const {
  std::call_once(capability_asked_, [&] {
    const Functions& cu = driver().functions();
    for (int ordinal = 0; ordinal < driver().device_count(); ++ordinal) {
      CUdevice device = 0;
      const bool is_there = cu.DeviceGet(&device, ordinal) == CUDA_SUCCESS;
      const int capability = is_there ? capability_of(cu, device) : 0;
      lowest_capability_ = ordinal == 0 ? capability : std::min(lowest_capability_, capability);
    }
  });
  return lowest_capability_;
}

bool Instance::has_kernels(uint32_t ordinal, int major) const {
  if (!Kernels::are_for(major)) return false;
  if (Kernels::surely_load(driver().version())) return true;
  const std::lock_guard lock(mutex_);
  if (const auto tried = loads_kernels_.find(major); tried != loads_kernels_.end()) {
    return tried->second;
  }
  std::unique_ptr<Device> device;
  // A failure is not cached: a device in use by another process may be free the next time.
  if (Device::open(driver(), ordinal, libraries_, &device) != KEEL_OK) return false;
  return loads_kernels_[major] = device->kernels() != nullptr;
}

keel_status Instance::describe(uint32_t ordinal, keel_device_info* out_info) const {
  Driver& driver = this->driver();
  const Functions& cu = driver.functions();
  if (ordinal >= static_cast<uint32_t>(driver.device_count())) {
    return kit::fail(KEEL_NOT_FOUND, "cuda: there is no device %u", ordinal);
  }
  CUdevice device = 0;
  CUresult result = cu.DeviceGet(&device, static_cast<int>(ordinal));
  size_t memory = 0;
  if (result == CUDA_SUCCESS) result = cu.DeviceTotalMem(&memory, device);
  if (result == CUDA_SUCCESS) {
    result = cu.DeviceGetName(out_info->name, sizeof(out_info->name), device);
  }
  if (result != CUDA_SUCCESS) {
    return kit::fail(status_of(result), "cuda: device %u: %s", ordinal,
                     driver.text_of("cuDeviceGet", result).c_str());
  }
  // Returns |otherwise| if the driver is too old for the attribute.
  const auto attribute = [&](CUdevice_attribute which, int otherwise) {
    int value = 0;
    return cu.DeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : otherwise;
  };
  const std::string architecture =
      "sm_" + std::to_string(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0)) +
      std::to_string(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0));
  kit::copy_text(out_info->architecture, architecture.c_str());
  kit::copy_text(out_info->driver, driver.description().c_str());
  if (cu.DeviceGetPCIBusId(out_info->pci_address, sizeof(out_info->pci_address), device) !=
      CUDA_SUCCESS) {
    kit::copy_text(out_info->pci_address, "");
  }
  CUuuid uuid = {};
  (void)cu.DeviceGetUuid(&uuid, device);  // zero is "unknown"
  std::memcpy(out_info->uuid, uuid.bytes, sizeof(out_info->uuid));
  out_info->type = KEEL_DEVICE_GPU;
  out_info->numa_node = attribute(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, -1);
  out_info->capabilities = kCapabilities;
  if (attribute(CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 0) != 0) {
    out_info->capabilities |= KEEL_CAPABILITY_PRIORITY;
  }
  if (has_kernels(ordinal, attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0))) {
    out_info->capabilities |= KEEL_CAPABILITY_OPS;
  }
  // Without this attribute the host may not access managed memory while the device works.
  if (attribute(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 0) != 0) {
    out_info->capabilities |= KEEL_CAPABILITY_MANAGED;
  }
  if (can_share_memory(cu, device)) out_info->capabilities |= KEEL_CAPABILITY_EXPORT;
  if (has_collectives(nccl_folder())) out_info->capabilities |= KEEL_CAPABILITY_CCL;
  out_info->memory_bytes = memory;
  out_info->max_alloc_bytes = 0;
  out_info->alignment = 256;
  out_info->compute_units =
      static_cast<uint32_t>(attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
  out_info->hardware_queues = 0;
  out_info->copy_alignment = 0;
  return KEEL_OK;
}

}  // namespace keel::cuda
