// SPDX-License-Identifier: Apache-2.0
// The device of a fuzzer whose process is a rank, shared by all inputs.
#ifndef KEEL_FUZZ_OPEN_DEVICE_H_
#define KEEL_FUZZ_OPEN_DEVICE_H_

#include <cstdint>

#include "core/device.h"

namespace keel::fuzz {

struct OpenDevice {
  Ref<Device> device;
  char* memory = nullptr;  // of the device, which the host reaches
};

// Initializes Keel with |backend| alone, and allocates |bytes| on its first device. Starts the
// threads of |streams| streams, as many as an operation may take: a thread still starting at the
// end of an input looks like a leak. Ends the program on a failure.
OpenDevice open_device(const char* backend, uint64_t bytes, uint32_t streams);

}  // namespace keel::fuzz

#endif  // KEEL_FUZZ_OPEN_DEVICE_H_
