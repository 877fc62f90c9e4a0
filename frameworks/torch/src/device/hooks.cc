// SPDX-License-Identifier: Apache-2.0
// PyTorch's hooks of the device: allocators, generators, pinned memory, resizing.
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/DeviceType.h>
#include <keel/keel.h>

#include "device_allocator.h"
#include "devices.h"
#include "generator.h"
#include "register.h"

namespace keel_torch::device {

namespace {

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return count() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex index) const override {
    return is_initialized() && index < count();
  }
  void init() const override {
    TORCH_CHECK(!is_forked(),
                "keel: KEEL_FORKED: a keel device cannot be used in a process that "
                "was forked after its first use; start the process by 'spawn'");
    (void)handle(current());
  }
  c10::DeviceIndex deviceCount() const override { return count(); }
  void setCurrentDevice(c10::DeviceIndex index) const override {
    (void)handle(index);
    set_current(index);
  }
  c10::DeviceIndex getCurrentDevice() const override { return current(); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    const c10::DeviceIndex former = current();
    if (index >= 0) setCurrentDevice(index);
    return former;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return exchangeDevice(index);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    return default_generator(index);
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    return at::make_generator<Generator>(resolve(index));
  }
  // Addresses of two devices may be equal, so that a pointer alone names no device.
  at::Device getDeviceFromPtr(void*) const override { return {kType, current()}; }
  bool isPinnedPtr(const void* pointer) const override { return is_pinned(pointer); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return pinned_allocator(); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    resize_storage(storage, bytes);
  }
};

}  // namespace

void register_device() {
  c10::register_privateuse1_backend("keel");
  c10::SetAllocator(kType, device_allocator());
  at::RegisterPrivateUse1HooksInterface(new Hooks);
}

}  // namespace keel_torch::device
