// SPDX-License-Identifier: Apache-2.0
// System management: the state of a device's memory, its one module.
#include "emulator/shims/level_zero/api.h"
#include "emulator/shims/level_zero/handles.h"

using namespace keel::emulator::level_zero;  // NOLINT: the functions below are C functions

extern "C" {

// A module has the handle of its device.
ze::Result zesDeviceEnumMemoryModules(ze::Device device, uint32_t* count,
                                      ze::SysmanMemory* modules) {
  return answer("zesDeviceEnumMemoryModules", [&](Driver& driver) {
    if (!driver.has_sysman()) return ze::kUninitialized;
    Chip& chip = driver.chip("zesDeviceEnumMemoryModules", device);
    if (count == nullptr) return ze::kInvalidNullPointer;
    if (*count != 0 && modules != nullptr) {
      *modules = reinterpret_cast<ze::SysmanMemory>(chip.handle());
    }
    *count = 1;
    return ze::kSuccess;
  });
}

ze::Result zesMemoryGetState(ze::SysmanMemory module, ze::SysmanMemoryState* state) {
  return answer("zesMemoryGetState", [&](Driver& driver) {
    if (!driver.has_sysman()) return ze::kUninitialized;
    Chip& chip = driver.chip("zesMemoryGetState", reinterpret_cast<ze::Device>(module));
    if (state == nullptr) return ze::kInvalidNullPointer;
    std::shared_ptr<keel::emulator::Device> device;
    const ze::Result result = result_of(chip.device(&device));
    if (result != ze::kSuccess) return result;
    state->health = 1;
    state->free_bytes = device->memory().free_bytes();
    state->total_bytes = device->memory().total_bytes();
    return ze::kSuccess;
  });
}

}  // extern "C"
