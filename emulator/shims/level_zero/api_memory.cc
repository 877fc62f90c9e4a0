// SPDX-License-Identifier: Apache-2.0
// Memory of devices, of the host, and shared by both. Host and shared memory have the host's
// addresses.
#include "emulator/shims/level_zero/api.h"
#include "emulator/shims/level_zero/handles.h"

using namespace keel::emulator::level_zero;  // NOLINT: the functions below are C functions
using keel::emulator::Address;
using keel::emulator::HostMemory;
using keel::emulator::Memory;
using keel::emulator::Status;

namespace {

// All allocations begin at multiples of Memory::kAlignment.
bool is_alignment(size_t alignment) {
  return (alignment & (alignment - 1)) == 0 && alignment <= Memory::kAlignment;
}

ze::Result allocate_host(Driver& driver, HostMemory::Kind kind, size_t size, size_t alignment,
                         void** pointer) {
  if (size == 0) return ze::kUnsupportedSize;
  if (!is_alignment(alignment)) return ze::kUnsupportedAlignment;
  return driver.host_memory().allocate(kind, size, pointer) == HostMemory::Result::kOk
             ? ze::kSuccess
             : ze::kOutOfHostMemory;
}

}  // namespace

extern "C" {

ze::Result zeMemAllocShared(ze::Context context, const ze::DeviceMemoryDesc* device_desc,
                            const ze::HostMemoryDesc* host_desc, size_t size, size_t alignment,
                            ze::Device device, void** pointer) {
  return answer("zeMemAllocShared", [&](Driver& driver) {
    (void)Contexts::get().find("zeMemAllocShared", context);
    if (device != nullptr) (void)driver.chip("zeMemAllocShared", device);
    if (device_desc == nullptr || host_desc == nullptr || pointer == nullptr) {
      return ze::kInvalidNullPointer;
    }
    return allocate_host(driver, HostMemory::Kind::kManaged, size, alignment, pointer);
  });
}

ze::Result zeMemAllocDevice(ze::Context context, const ze::DeviceMemoryDesc* desc, size_t size,
                            size_t alignment, ze::Device device, void** pointer) {
  return answer("zeMemAllocDevice", [&](Driver& driver) {
    (void)Contexts::get().find("zeMemAllocDevice", context);
    Chip& chip = driver.chip("zeMemAllocDevice", device);
    if (desc == nullptr || pointer == nullptr) return ze::kInvalidNullPointer;
    if (size == 0 || size > chip.options().memory_bytes) return ze::kUnsupportedSize;
    if (!is_alignment(alignment)) return ze::kUnsupportedAlignment;
    std::shared_ptr<keel::emulator::Device> emulated;
    Status status = chip.device(&emulated);
    Address address = 0;
    if (status.ok()) status = emulated->allocate(size, &address);
    if (status.ok()) *pointer = reinterpret_cast<void*>(address);  // NOLINT: a device address
    return result_of(status);
  });
}

ze::Result zeMemAllocHost(ze::Context context, const ze::HostMemoryDesc* desc, size_t size,
                          size_t alignment, void** pointer) {
  return answer("zeMemAllocHost", [&](Driver& driver) {
    (void)Contexts::get().find("zeMemAllocHost", context);
    if (desc == nullptr || pointer == nullptr) return ze::kInvalidNullPointer;
    return allocate_host(driver, HostMemory::Kind::kPinned, size, alignment, pointer);
  });
}

// Works on a lost device.
ze::Result zeMemFree(ze::Context context, void* pointer) {
  return answer("zeMemFree", [&](Driver& driver) {
    (void)Contexts::get().find("zeMemFree", context);
    const Address address = keel::emulator::address_of(pointer);
    if (Chip* const chip = driver.owner(address); chip != nullptr) {
      std::shared_ptr<keel::emulator::Device> emulated;
      (void)chip->device(&emulated);
      return emulated == nullptr ? ze::kInvalidArgument
                                 : result_of(emulated->memory().free(address));
    }
    for (const HostMemory::Kind kind : {HostMemory::Kind::kPinned, HostMemory::Kind::kManaged}) {
      if (driver.host_memory().free(kind, pointer) == HostMemory::Result::kOk) return ze::kSuccess;
    }
    return ze::kInvalidArgument;
  });
}

ze::Result zeMemGetAllocProperties(ze::Context context, const void* pointer,
                                   ze::AllocationProperties* properties, ze::Device* device) {
  return answer("zeMemGetAllocProperties", [&](Driver& driver) {
    (void)Contexts::get().find("zeMemGetAllocProperties", context);
    if (pointer == nullptr || properties == nullptr) return ze::kInvalidNullPointer;
    Chip* const chip = driver.owner(keel::emulator::address_of(pointer));
    properties->type = ze::kMemoryUnknown;
    properties->id = 0;
    properties->page_bytes = 4096;
    if (chip != nullptr) {
      properties->type = ze::kMemoryDevice;
    } else if (driver.host_memory().find(pointer) == HostMemory::Result::kOk) {
      properties->type = ze::kMemoryHost;
    }
    if (device != nullptr) *device = chip == nullptr ? nullptr : chip->handle();
    return ze::kSuccess;
  });
}

}  // extern "C"
