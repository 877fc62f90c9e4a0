// SPDX-License-Identifier: Apache-2.0
// Versions and devices.
#include <type_traits>

#include "emulator/shims/xre/runtime.h"

using namespace keel::emulator::xre;  // NOLINT: the functions below are C functions

extern "C" {

int xpu_get_driver_version(uint32_t* major, uint32_t* minor) {
  return answer("xpu_get_driver_version", [&](Runtime& runtime) -> int {
    if (major == nullptr || minor == nullptr) return fail(keel::xre::kInvalidParameter);
    *major = static_cast<uint32_t>(runtime.settings().version / 100);
    *minor = static_cast<uint32_t>(runtime.settings().version % 100);
    return keel::xre::kSuccess;
  });
}

int xpu_get_runtime_version(uint32_t* major, uint32_t* minor) {
  return answer("xpu_get_runtime_version", [&](Runtime& runtime) -> int {
    if (major == nullptr || minor == nullptr) return fail(keel::xre::kInvalidParameter);
    *major = static_cast<uint32_t>(runtime.settings().version / 100);
    *minor = static_cast<uint32_t>(runtime.settings().version % 100);
    return keel::xre::kSuccess;
  });
}

int xpu_set_device(int devid) {
  return answer("xpu_set_device", [&](Runtime& runtime) -> int {
    if (runtime.chip(devid) == nullptr) return fail(keel::xre::kInvalidDevice);
    set_current_device(devid);
    return keel::xre::kSuccess;
  });
}

int xpu_current_device(int* devid) {
  return answer("xpu_current_device", [&](Runtime&) -> int {
    if (devid == nullptr) return fail(keel::xre::kInvalidParameter);
    if (current_device() < 0) return fail(keel::xre::kNoDevice);
    *devid = current_device();
    return keel::xre::kSuccess;
  });
}

int xpu_device_count(int* dev_count) {
  return answer("xpu_device_count", [&](Runtime& runtime) -> int {
    if (dev_count == nullptr) return fail(keel::xre::kInvalidParameter);
    *dev_count = static_cast<int>(runtime.count_devices());
    return keel::xre::kSuccess;
  });
}

// Writes the numbers of the visible devices: room for 64 is the caller's to give.
int xpu_device_list(int* dev_list) {
  return answer("xpu_device_list", [&](Runtime& runtime) -> int {
    if (dev_list == nullptr) return fail(keel::xre::kInvalidParameter);
    for (const int device : runtime.visible()) *dev_list++ = device;
    return keel::xre::kSuccess;
  });
}

int xpu_device_get_attr(uint64_t* v, int attr, int devid) {
  return answer("xpu_device_get_attr", [&](Runtime& runtime) -> int {
    if (v == nullptr) return fail(keel::xre::kInvalidParameter);
    if (runtime.chip(devid) == nullptr) return fail(keel::xre::kInvalidDevice);
    const auto number = static_cast<uint64_t>(devid);
    const auto& options = runtime.settings().chips.device;
    switch (attr) {
      case keel::xre::kPciAddress:
        *v = kPciDomain << 16 | number << 8;
        return keel::xre::kSuccess;
      case keel::xre::kModel:
        *v = runtime.settings().model;
        return keel::xre::kSuccess;
      case keel::xre::kMainMemoryBytes:
        *v = options.memory_bytes;
        return keel::xre::kSuccess;
      case keel::xre::kClusters:
        *v = 8;
        return keel::xre::kSuccess;
      default:
        return fail(keel::xre::kNoSupport);
    }
  });
}

}  // extern "C"

// The shim has the argument lists that the plugin calls.
#define KEEL_CHECK(name) \
  static_assert(std::is_same_v<decltype(&xpu_##name), decltype(keel::xre::Functions::name)>)
KEEL_CHECK(current_device);
KEEL_CHECK(device_count);
KEEL_CHECK(device_get_attr);
KEEL_CHECK(device_list);
KEEL_CHECK(get_runtime_version);
KEEL_CHECK(set_device);
