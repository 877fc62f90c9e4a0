// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/device.h"

#include <algorithm>
#include <keel/plugin_kit.hpp>

#include "backends/cuda/result.h"

namespace keel::cuda {

int capability_of(const Functions& cu, CUdevice device) {
  int major = 0;
  int minor = 0;
  (void)cu.DeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  (void)cu.DeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  return 10 * major + minor;
}

Device::Device(Driver& driver, CUdevice device, const LibrarySettings& libraries)
    : driver_(driver), device_(device), libraries_(libraries) {
  library_products_.emplace(*this, libraries.cublaslt_folder);
}

keel_status Device::open(Driver& driver, uint32_t ordinal, const LibrarySettings& libraries,
                         std::unique_ptr<Device>* out_device) {
  if (ordinal >= static_cast<uint32_t>(driver.device_count())) {
    return kit::fail(KEEL_NOT_FOUND, "cuda: there is no device %u", ordinal);
  }
  const Functions& cu = driver.functions();
  CUdevice handle = 0;
  CUresult result = cu.DeviceGet(&handle, static_cast<int>(ordinal));
  std::unique_ptr<Device> device(new Device(driver, handle, libraries));
  if (result == CUDA_SUCCESS) result = cu.DevicePrimaryCtxRetain(&device->context_, handle);
  const keel_status retained = device->check("cuDevicePrimaryCtxRetain", result);
  if (retained != KEEL_OK) return retained;
  const keel_status status = device->call("cuCtxGetStreamPriorityRange", [&](const Functions& c) {
    return c.CtxGetStreamPriorityRange(&device->least_priority_, &device->greatest_priority_);
  });
  if (status != KEEL_OK) return status;
  device->kernels_ = Kernels::load(*device);
  *out_device = std::move(device);
  return KEEL_OK;
}

Device::~Device() {
  library_products_.reset();
  if (kernels_ != nullptr) kernels_->unload(*this);
  if (context_ != nullptr) (void)functions().DevicePrimaryCtxRelease(device_);
}

keel_status Device::say_lost() const {
  return kit::fail(KEEL_DEVICE_LOST, "%s",
                   driver_.text_of("cuda: the device is lost", loss_.load()).c_str());
}

keel_status Device::check(const char* name, CUresult result) {
  if (result == CUDA_SUCCESS) return KEEL_OK;
  if (result == CUDA_ERROR_NOT_READY) return KEEL_NOT_READY;
  if (is_fatal(result)) {
    CUresult none = CUDA_SUCCESS;
    loss_.compare_exchange_strong(none, result);
  }
  return kit::fail(status_of(result), "cuda: %s", driver_.text_of(name, result).c_str());
}

// Native priorities range from the least urgent, 0, down to the greatest. Keel's 0 maps to the
// least urgent, so priorities below Keel's 0 have no native counterpart.
int Device::native_priority(int32_t priority) const {
  return std::clamp<int>(priority, greatest_priority_, least_priority_);
}

keel_status Device::alloc(keel_memory_kind kind, uint64_t size, void** out_pointer) {
  if (kind == KEEL_MEMORY_PINNED) {
    return call("cuMemHostAlloc", [&](const Functions& cu) {
      return cu.MemHostAlloc(out_pointer, size,
                             CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    });
  }
  CUdeviceptr address = 0;
  keel_status status = KEEL_OK;
  if (kind == KEEL_MEMORY_DEVICE) {
    status = call("cuMemAlloc", [&](const Functions& cu) { return cu.MemAlloc(&address, size); });
  } else if (kind == KEEL_MEMORY_MANAGED) {
    status = call("cuMemAllocManaged", [&](const Functions& cu) {
      return cu.MemAllocManaged(&address, size, CU_MEM_ATTACH_GLOBAL);
    });
  } else {
    return kit::fail(KEEL_UNSUPPORTED, "cuda: no memory of kind %u", kind);
  }
  if (status == KEEL_OK) *out_pointer = reinterpret_cast<void*>(address);
  return status;
}

keel_status Device::free(keel_memory_kind kind, void* pointer) {
  if (kind == KEEL_MEMORY_PINNED) {
    return release("cuMemFreeHost", [&](const Functions& cu) { return cu.MemFreeHost(pointer); });
  }
  return release("cuMemFree", [&](const Functions& cu) {
    return cu.MemFree(reinterpret_cast<CUdeviceptr>(pointer));
  });
}

keel_status Device::host_register(void* pointer, uint64_t size, void** out_device_pointer) {
  const auto enter = [&](const Functions& cu) {
    return driver_.registrations().add(pointer, size, [&] {
      return cu.MemHostRegister(pointer, size,
                                CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    });
  };
  const keel_status status = call("cuMemHostRegister", enter);
  if (status != KEEL_OK) return status;
  // If the device cannot address the memory, it serves copies only.
  CUdeviceptr address = 0;
  const CUresult found = run([&](const Functions& cu) {
    return cu.MemHostGetDevicePointer(&address, pointer, /*Flags=*/0);
  });
  *out_device_pointer = found == CUDA_SUCCESS ? reinterpret_cast<void*>(address) : nullptr;
  return KEEL_OK;
}

keel_status Device::host_unregister(void* pointer) {
  return release("cuMemHostUnregister", [&](const Functions& cu) {
    return driver_.registrations().remove(pointer, [&] { return cu.MemHostUnregister(pointer); });
  });
}

keel_status Device::memory_info(uint64_t* out_free, uint64_t* out_total) {
  size_t free = 0;
  size_t total = 0;
  const keel_status status =
      call("cuMemGetInfo", [&](const Functions& cu) { return cu.MemGetInfo(&free, &total); });
  *out_free = free;
  *out_total = total;
  return status;
}

keel_status Device::health(keel_device_health* out_health) {
  out_health->ok = 1;
  out_health->throttled = 0;
  out_health->corrected_ecc = 0;
  out_health->uncorrected_ecc = 0;
  std::string text;
  // Detects failures of work that no call has reported yet, with a call that does not wait and is
  // allowed while a framework captures a graph.
  size_t free = 0;
  size_t total = 0;
  const CUresult asked = run([&](const Functions& cu) { return cu.MemGetInfo(&free, &total); });
  if (is_fatal(asked)) (void)check("cuMemGetInfo", asked);  // records the loss
  if (is_lost()) text = driver_.text_of("the device is lost", loss_.load());
  if (!text.empty()) out_health->ok = 0;
  char address[32] = {};
  if (functions().DeviceGetPCIBusId(address, sizeof(address), device_) == CUDA_SUCCESS) {
    driver_.nvml().examine(address, out_health, &text);
  }
  kit::copy_text(out_health->text, text.c_str());
  return KEEL_OK;
}

keel_status Device::peer_enable(const Device& peer) {
  int possible = 0;
  keel_status status = call("cuDeviceCanAccessPeer", [&](const Functions& cu) {
    return cu.DeviceCanAccessPeer(&possible, device_, peer.device_);
  });
  if (status != KEEL_OK) return status;
  if (possible == 0)
    return kit::fail(KEEL_UNSUPPORTED, "cuda: the devices cannot reach each other");
  return call("cuCtxEnablePeerAccess", [&](const Functions& cu) {
    const CUresult result = cu.CtxEnablePeerAccess(peer.context_, /*Flags=*/0);
    return result == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED ? CUDA_SUCCESS : result;
  });
}

void Device::connect(Device& peer) {
  const uint64_t bit = uint64_t{1} << (static_cast<uint32_t>(peer.device_) % 64);
  if ((connected_.load(std::memory_order_relaxed) & bit) != 0 || &peer == this) return;
  connected_.fetch_or(bit, std::memory_order_relaxed);
  // Ignores failures: without a direct link, or on a lost device, the copy itself reports the
  // error.
  (void)peer_enable(peer);
  (void)peer.peer_enable(*this);
}

keel_status Device::native_handle(uint32_t which, void** out_handle) const {
  switch (which) {
    case 0:
      *out_handle = context_;
      return KEEL_OK;
    case 1:
      *out_handle = reinterpret_cast<void*>(static_cast<intptr_t>(device_));
      return KEEL_OK;
    default:
      return kit::fail(KEEL_UNSUPPORTED,
                       "cuda: no native handle %u: 0, the context, or 1, the device", which);
  }
}

}  // namespace keel::cuda
