// SPDX-License-Identifier: Apache-2.0
#include "backends/kunlun/device.h"

namespace keel::kunlun {

keel_status Device::open(const Runtime& runtime, uint32_t ordinal, const std::string& bkcl_folder,
                         std::unique_ptr<Device>* out_device) {
  if (ordinal >= runtime.devices().size()) {
    return kit::fail(KEEL_NOT_FOUND, "kunlun: there is no device %u", ordinal);
  }
  std::unique_ptr<Device> device(new Device(runtime, runtime.devices()[ordinal], bkcl_folder));
  // Fails if the device has gone since it was counted.
  const keel_status status =
      device->call("xpu_set_device", [](const xre::Functions&) { return int{xre::kSuccess}; });
  if (status == KEEL_OK) *out_device = std::move(device);
  return status;
}

keel_status Device::say_lost() const {
  return kit::fail(KEEL_DEVICE_LOST, "%s",
                   text_of("kunlun: the device is lost", loss_.load()).c_str());
}

keel_status Device::check(const char* name, int result) {
  const int error = error_of(result);
  if (error == xre::kSuccess) return KEEL_OK;
  if (is_fatal(error)) {
    int none = xre::kSuccess;
    loss_.compare_exchange_strong(none, error);
  }
  return kit::fail(status_of(error), "kunlun: %s", text_of(name, error).c_str());
}

keel_status Device::alloc(keel_memory_kind kind, uint64_t size, void** out_pointer) {
  if (kind == KEEL_MEMORY_PINNED && functions().host_alloc != nullptr) {
    return call("xpu_host_alloc", [&](const xre::Functions& xpu) {
      return xpu.host_alloc(out_pointer, size, /*flags=*/0);
    });
  }
  if (kind != KEEL_MEMORY_DEVICE) {
    return kit::fail(KEEL_UNSUPPORTED, "kunlun: no memory of kind %u", kind);
  }
  void* memory = nullptr;
  const keel_status status = call("xpu_malloc", [&](const xre::Functions& xpu) {
    return xpu.malloc(&memory, size, xre::kMainMemory);
  });
  if (status != KEEL_OK) return status;
  // XRE documents no alignment.
  if (reinterpret_cast<uintptr_t>(memory) % 64 != 0) {
    (void)free(kind, memory);
    return kit::fail(KEEL_INTERNAL, "kunlun: xpu_malloc returned %p, which 64 does not divide",
                     memory);
  }
  *out_pointer = memory;
  return KEEL_OK;
}

keel_status Device::free(keel_memory_kind kind, void* pointer) {
  if (kind == KEEL_MEMORY_PINNED) {
    return release("xpu_host_free",
                   [&](const xre::Functions& xpu) { return xpu.host_free(pointer); });
  }
  return release("xpu_free", [&](const xre::Functions& xpu) { return xpu.free(pointer); });
}

keel_status Device::host_register(void* pointer, uint64_t size, void** out_device_pointer) {
  if (functions().host_register == nullptr || functions().host_unregister == nullptr) {
    return kit::fail(KEEL_UNSUPPORTED, "kunlun: this XRE registers no host memory");
  }
  // XRE gives no device address: the memory serves copies alone.
  *out_device_pointer = nullptr;
  return call("xpu_host_register", [&](const xre::Functions& xpu) {
    return xpu.host_register(pointer, size, /*flags=*/0);
  });
}

keel_status Device::host_unregister(void* pointer) {
  return release("xpu_host_unregister",
                 [&](const xre::Functions& xpu) { return xpu.host_unregister(pointer); });
}

keel_status Device::health(keel_device_health* out_health) const {
  out_health->ok = is_lost() ? 0 : 1;
  out_health->throttled = 0;
  out_health->corrected_ecc = 0;
  out_health->uncorrected_ecc = loss_.load() == xre::kUncorrectableEcc ? 1 : 0;
  kit::copy_text(out_health->text,
                 is_lost() ? text_of("the device is lost", loss_.load()).c_str() : "");
  return KEEL_OK;
}

}  // namespace keel::kunlun
