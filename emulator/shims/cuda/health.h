// SPDX-License-Identifier: Apache-2.0
// The chip state that the NVML shim queries: NVML sees chips without a context, and reports the
// causes of failures after the contexts are gone.
#ifndef KEEL_EMULATOR_SHIMS_CUDA_HEALTH_H_
#define KEEL_EMULATOR_SHIMS_CUDA_HEALTH_H_

#include <cstdint>

#include "emulator/status.h"

namespace keel::emulator::cuda {

struct ChipHealth {
  uint64_t failures = 0;        // times the chip was lost, for any cause
  uint64_t uncorrected = 0;     // losses by a fault that loses the device
  Code last_cause = Code::kOk;  // cause of the last loss
  bool is_slowed = false;       // by a fault, for all work or for operators
  char pci_address[16] = {};    // as cuDeviceGetPCIBusId formats it
};

}  // namespace keel::emulator::cuda

extern "C" {

// Returns the state of device |index|; false if there is no such device. Any thread may call, also
// before cuInit.
bool keel_emulated_cuda_health(uint32_t index, keel::emulator::cuda::ChipHealth* out_health);

}  // extern "C"

#endif  // KEEL_EMULATOR_SHIMS_CUDA_HEALTH_H_
