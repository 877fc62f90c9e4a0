// SPDX-License-Identifier: Apache-2.0
// Device memory of other processes, and host memory of the caller by the functions of Intel's
// driver, which zeDriverGetExtensionFunctionAddress gives.
#include <unistd.h>

#include <cstring>
#include <string_view>

#include "emulator/shims/level_zero/api.h"
#include "emulator/shims/level_zero/handles.h"

using namespace keel::emulator::level_zero;  // NOLINT: the functions below are C functions
using keel::emulator::Access;
using keel::emulator::Address;
using keel::emulator::address_of;
using keel::emulator::HostMemory;
using keel::emulator::Reach;
using keel::emulator::SharedFileHandle;
using keel::emulator::Status;

namespace {

// The contents of a handle. A library of another build has another size or magic.
struct Handle {
  uint64_t magic = 0x6b65656c7a650001;
  SharedFileHandle place = {};
};
static_assert(sizeof(Handle) <= sizeof(ze::IpcMemHandle));

// Returns the chip whose memory contains |pointer|, or NULL.
std::shared_ptr<keel::emulator::Device> owner_of(Driver& driver, const void* pointer) {
  std::shared_ptr<keel::emulator::Device> device;
  if (Chip* const chip = driver.owner(address_of(pointer))) (void)chip->device(&device);
  return device;
}

ze::Result import_pointer(ze::Driver, void* pointer, size_t size) {
  return answer("zexDriverImportExternalPointer", [&](Driver& driver) {
    if (pointer == nullptr) return ze::kInvalidNullPointer;
    switch (driver.host_memory().add(pointer, size)) {
      case HostMemory::Result::kOk:
        return ze::kSuccess;
      case HostMemory::Result::kOutOfMemory:
        return ze::kOutOfHostMemory;
      default:
        return ze::kInvalidArgument;
    }
  });
}

ze::Result release_pointer(ze::Driver, void* pointer) {
  return answer("zexDriverReleaseImportedPointer", [&](Driver& driver) {
    return driver.host_memory().remove(pointer) == HostMemory::Result::kOk ? ze::kSuccess
                                                                           : ze::kInvalidArgument;
  });
}

}  // namespace

extern "C" {

ze::Result zeDriverGetIpcProperties(ze::Driver handle, ze::DriverIpcProperties* properties) {
  return answer("zeDriverGetIpcProperties", [&](Driver& driver) {
    if (driver.handle() != handle) end_process("zeDriverGetIpcProperties", "no driver's handle");
    if (properties == nullptr) return ze::kInvalidNullPointer;
    properties->flags = driver.settings().ipc != 0 ? ze::kIpcMemory : 0;
    return ze::kSuccess;
  });
}

ze::Result zeDriverGetExtensionFunctionAddress(ze::Driver, const char* name, void** function) {
  return answer("zeDriverGetExtensionFunctionAddress", [&](Driver& driver) {
    if (name == nullptr || function == nullptr) return ze::kInvalidNullPointer;
    const std::string_view wanted(name);
    if (driver.settings().import == 0) return ze::kInvalidArgument;
    if (wanted == ze::kImportExternalPointer) {
      *function = reinterpret_cast<void*>(&import_pointer);
    } else if (wanted == ze::kReleaseImportedPointer) {
      *function = reinterpret_cast<void*>(&release_pointer);
    } else {
      return ze::kInvalidArgument;
    }
    return ze::kSuccess;
  });
}

ze::Result zeMemGetAddressRange(ze::Context context, const void* pointer, void** base,
                                size_t* size) {
  return answer("zeMemGetAddressRange", [&](Driver& driver) {
    (void)Contexts::get().find("zeMemGetAddressRange", context);
    const auto device = owner_of(driver, pointer);
    if (device == nullptr) return ze::kInvalidArgument;
    Access access(device->memory());
    Reach reach = {};
    if (!access.reach_block(address_of(pointer), &reach).ok()) return ze::kInvalidArgument;
    if (base != nullptr) *base = reinterpret_cast<void*>(reach.begin);  // NOLINT: a device address
    if (size != nullptr) *size = reach.size;
    return ze::kSuccess;
  });
}

// |pointer|: the beginning of an allocation of zeMemAllocDevice.
ze::Result zeMemGetIpcHandle(ze::Context context, const void* pointer, ze::IpcMemHandle* handle) {
  return answer("zeMemGetIpcHandle", [&](Driver& driver) {
    (void)Contexts::get().find("zeMemGetIpcHandle", context);
    if (pointer == nullptr || handle == nullptr) return ze::kInvalidNullPointer;
    const auto device = owner_of(driver, pointer);
    if (device == nullptr) return ze::kInvalidArgument;
    Handle made;
    const Status status = device->memory().share(address_of(pointer), &made.place);
    if (!status.ok()) return result_of(status);
    *handle = {};
    std::memcpy(handle->data, &made, sizeof(made));
    return ze::kSuccess;
  });
}

ze::Result zeMemOpenIpcHandle(ze::Context context, ze::Device device, ze::IpcMemHandle handle,
                              uint32_t flags, void** pointer) {
  return answer("zeMemOpenIpcHandle", [&](Driver& driver) {
    (void)Contexts::get().find("zeMemOpenIpcHandle", context);
    Chip& chip = driver.chip("zeMemOpenIpcHandle", device);
    if (pointer == nullptr) return ze::kInvalidNullPointer;
    if (flags != 0) return ze::kInvalidEnumeration;
    Handle inside;
    std::memcpy(&inside, handle.data, sizeof(inside));
    if (inside.magic != Handle().magic) return ze::kInvalidArgument;
    std::shared_ptr<keel::emulator::Device> emulated;
    Status status = chip.device(&emulated);
    Address address = 0;
    if (status.ok()) status = emulated->memory().import(inside.place, &address);
    if (status.ok()) *pointer = reinterpret_cast<void*>(address);  // NOLINT: a device address
    return result_of(status);
  });
}

// Works on a lost device.
ze::Result zeMemCloseIpcHandle(ze::Context context, const void* pointer) {
  return answer("zeMemCloseIpcHandle", [&](Driver& driver) {
    (void)Contexts::get().find("zeMemCloseIpcHandle", context);
    const auto device = owner_of(driver, pointer);
    if (device == nullptr) return ze::kInvalidArgument;
    return result_of(device->memory().close_import(address_of(pointer)));
  });
}

}  // extern "C"
