// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/device.h"

#include <unistd.h>

#include <algorithm>
#include <keel/plugin_kit.hpp>

#include "backends/gpu/result.h"
#include "backends/gpu/result_codes.h"

namespace keel::gpu {

Device::Device(Driver& driver, NativeDevice device, const LibrarySettings& libraries)
    : driver_(driver), device_(device), libraries_(libraries) {
  library_products_.emplace(*this, libraries.products_folder);
}

keel_status Device::open(Driver& driver, uint32_t ordinal, const LibrarySettings& libraries,
                         std::unique_ptr<Device>* out_device) {
  if (ordinal >= static_cast<uint32_t>(driver.device_count())) {
    return kit::fail(KEEL_NOT_FOUND, KEEL_GPU ": there is no device %u", ordinal);
  }
  const Functions& api = driver.functions();
  NativeDevice handle = 0;
  Result result = api.DeviceGet(&handle, static_cast<int>(ordinal));
  std::unique_ptr<Device> device(new Device(driver, handle, libraries));
  if (result == kSuccess) result = retain_context(api, handle, &device->context_);
  const keel_status retained = device->check(Names::DeviceGet, result);
  if (retained != KEEL_OK) return retained;
  const keel_status status =
      device->call(Names::CtxGetStreamPriorityRange, [&](const Functions& api) {
        return api.CtxGetStreamPriorityRange(&device->least_priority_, &device->greatest_priority_);
      });
  if (status != KEEL_OK) return status;
  device->kernels_ = Kernels::load(*device);
  *out_device = std::move(device);
  return KEEL_OK;
}

Device::~Device() {
  library_products_.reset();
  if (kernels_ != nullptr) kernels_->unload(*this);
  if (context_ != kNoContext) release_context(functions(), device_);
}

keel_status Device::say_lost() const {
  return kit::fail(KEEL_DEVICE_LOST, "%s",
                   driver_.text_of(KEEL_GPU ": the device is lost", loss_.load()).c_str());
}

keel_status Device::check(const char* name, Result result) {
  if (result == kSuccess) return KEEL_OK;
  if (result == kErrorNotReady) return KEEL_NOT_READY;
  if (is_fatal(result)) {
    Result none = kSuccess;
    loss_.compare_exchange_strong(none, result);
  }
  return kit::fail(status_of(result), KEEL_GPU ": %s", driver_.text_of(name, result).c_str());
}

// Native priorities range from the least urgent, 0, down to the greatest. Keel's 0 maps to the
// least urgent, so priorities below Keel's 0 have no native counterpart.
int Device::native_priority(int32_t priority) const {
  return std::clamp<int>(priority, greatest_priority_, least_priority_);
}

keel_status Device::alloc(keel_memory_kind kind, uint64_t size, void** out_pointer) {
  if (kind == KEEL_MEMORY_PINNED) {
    return call(Names::MemHostAlloc, [&](const Functions& api) {
      return api.MemHostAlloc(out_pointer, size, kHostPortable | kHostMapped);
    });
  }
  DeviceAddress address = 0;
  keel_status status = KEEL_OK;
  if (kind == KEEL_MEMORY_DEVICE) {
    status =
        call(Names::MemAlloc, [&](const Functions& api) { return api.MemAlloc(&address, size); });
  } else if (kind == KEEL_MEMORY_MANAGED) {
    const keel_status may_fit = check_managed(size);
    if (may_fit != KEEL_OK) return may_fit;
    status = call(Names::MemAllocManaged, [&](const Functions& api) {
      return api.MemAllocManaged(&address, size, kAttachGlobal);
    });
  } else {
    return kit::fail(KEEL_UNSUPPORTED, KEEL_GPU ": no memory of kind %u", kind);
  }
  if (status == KEEL_OK) *out_pointer = reinterpret_cast<void*>(address);
  return status;
}

// The driver grants any size, 64 TiB too, and fails when the pages are used.
keel_status Device::check_managed(uint64_t size) {
  uint64_t free = 0;
  uint64_t total = 0;
  const keel_status status = memory_info(&free, &total);
  if (status != KEEL_OK) return status;
  const uint64_t host =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  if (size <= total + host) return KEEL_OK;
  return kit::fail(KEEL_OUT_OF_MEMORY,
                   KEEL_GPU
                   ": %llu bytes of managed memory are more than the device and the host "
                   "have: %llu and %llu",
                   static_cast<unsigned long long>(size), static_cast<unsigned long long>(total),
                   static_cast<unsigned long long>(host));
}

keel_status Device::free(keel_memory_kind kind, void* pointer) {
  if (kind == KEEL_MEMORY_PINNED) {
    return release(Names::MemFreeHost,
                   [&](const Functions& api) { return api.MemFreeHost(pointer); });
  }
  return release(Names::MemFree, [&](const Functions& api) {
    return api.MemFree(reinterpret_cast<DeviceAddress>(pointer));
  });
}

keel_status Device::host_register(void* pointer, uint64_t size, void** out_device_pointer) {
  const auto enter = [&](const Functions& api) {
    return driver_.registrations().add(pointer, size, [&] {
      return api.MemHostRegister(pointer, size, kHostPortable | kHostMapped);
    });
  };
  const keel_status status = call(Names::MemHostRegister, enter);
  if (status != KEEL_OK) return status;
  // If the device cannot address the memory, it serves copies only.
  DeviceAddress address = 0;
  const Result found = run([&](const Functions& api) {
    return api.MemHostGetDevicePointer(&address, pointer, /*Flags=*/0);
  });
  *out_device_pointer = found == kSuccess ? reinterpret_cast<void*>(address) : nullptr;
  return KEEL_OK;
}

keel_status Device::host_unregister(void* pointer) {
  return release(Names::MemHostUnregister, [&](const Functions& api) {
    return driver_.registrations().remove(pointer, [&] { return api.MemHostUnregister(pointer); });
  });
}

keel_status Device::memory_info(uint64_t* out_free, uint64_t* out_total) {
  size_t free = 0;
  size_t total = 0;
  const keel_status status =
      call(Names::MemGetInfo, [&](const Functions& api) { return api.MemGetInfo(&free, &total); });
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
  const Result asked = run([&](const Functions& api) { return api.MemGetInfo(&free, &total); });
  if (is_fatal(asked)) (void)check(Names::MemGetInfo, asked);  // records the loss
  if (is_lost()) text = driver_.text_of("the device is lost", loss_.load());
  if (!text.empty()) out_health->ok = 0;
  char address[32] = {};
  if (functions().DeviceGetPCIBusId(address, sizeof(address), device_) == kSuccess) {
    driver_.monitor().examine(address, out_health, &text);
  }
  kit::copy_text(out_health->text, text.c_str());
  return KEEL_OK;
}

keel_status Device::peer_enable(const Device& peer) {
  int possible = 0;
  keel_status status = call(Names::DeviceCanAccessPeer, [&](const Functions& api) {
    return api.DeviceCanAccessPeer(&possible, device_, peer.device_);
  });
  if (status != KEEL_OK) return status;
  if (possible == 0)
    return kit::fail(KEEL_UNSUPPORTED, KEEL_GPU ": the devices cannot reach each other");
  return call(Names::CtxEnablePeerAccess, [&](const Functions& api) {
    const Result result = api.CtxEnablePeerAccess(peer.context_, /*Flags=*/0);
    return result == kErrorPeerAccessAlreadyEnabled ? kSuccess : result;
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

}  // namespace keel::gpu
