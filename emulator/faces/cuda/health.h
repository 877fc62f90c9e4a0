// SPDX-License-Identifier: Apache-2.0
// What the library beside this one, NVML's, asks about the chips: that one sees them without a
// context, and remembers what they died of when the contexts are long gone.
#ifndef KEEL_EMULATOR_FACES_CUDA_HEALTH_H_
#define KEEL_EMULATOR_FACES_CUDA_HEALTH_H_

#include <cstdint>

#include "emulator/status.h"

namespace keel::emulator::cuda {

struct ChipHealth {
  uint64_t failures = 0;        // times the chip was lost, of whatever
  uint64_t uncorrected = 0;     // of those, by a fault that loses it
  Code last_cause = Code::kOk;  // of the last failure
  bool is_slowed = false;       // by a fault: all its work, or its operators'
  char pci_address[16] = {};    // as cuDeviceGetPCIBusId gives it
};

}  // namespace keel::emulator::cuda

extern "C" {

// Of device |index|; false where there is none. Any thread, also before cuInit.
bool keel_emulated_cuda_health(uint32_t index, keel::emulator::cuda::ChipHealth* out_health);

}  // extern "C"

#endif  // KEEL_EMULATOR_FACES_CUDA_HEALTH_H_
