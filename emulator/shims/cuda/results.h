// SPDX-License-Identifier: Apache-2.0
// The results of the shim's calls.
#ifndef KEEL_EMULATOR_SHIMS_CUDA_RESULTS_H_
#define KEEL_EMULATOR_SHIMS_CUDA_RESULTS_H_

#include <cuda.h>

#include "emulator/device.h"
#include "emulator/host_memory.h"
#include "emulator/status.h"

namespace keel::emulator::cuda {

// NULL for a code that the shim never returns.
const char* result_name(CUresult result);
const char* result_text(CUresult result);

// Returns the result of every call on a lost chip: the error that lost the chip.
CUresult loss_of(const Device& chip);
// Maps a status of |chip|.
CUresult result_of(const Status& status, const Device& chip);
CUresult result_of(HostMemory::Result result);

}  // namespace keel::emulator::cuda

#endif  // KEEL_EMULATOR_SHIMS_CUDA_RESULTS_H_
