// SPDX-License-Identifier: Apache-2.0
// What a call of the face answers.
#ifndef KEEL_EMULATOR_FACES_CUDA_RESULTS_H_
#define KEEL_EMULATOR_FACES_CUDA_RESULTS_H_

#include <cuda.h>

#include "emulator/device.h"
#include "emulator/status.h"

namespace keel::emulator::cuda {

// NULL for a code that the face never answers.
const char* result_name(CUresult result);
const char* result_text(CUresult result);

// What a lost chip answers to every call: the result of what it was lost of.
CUresult loss_of(const Device& chip);
// A status of |chip|.
CUresult result_of(const Status& status, const Device& chip);

}  // namespace keel::emulator::cuda

#endif  // KEEL_EMULATOR_FACES_CUDA_RESULTS_H_
