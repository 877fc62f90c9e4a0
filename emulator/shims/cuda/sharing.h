// SPDX-License-Identifier: Apache-2.0
// The functions of the driver shim for the shims of Nvidia's other libraries over the same chips.
// Those shims find the driver in their folder and look these functions up by name. All shims come
// from one build, so C++ objects of the chip may cross.
#ifndef KEEL_EMULATOR_SHIMS_CUDA_SHARING_H_
#define KEEL_EMULATOR_SHIMS_CUDA_SHARING_H_

#include <cuda.h>

#include <memory>

#include "emulator/device.h"
#include "emulator/stream.h"

extern "C" {

// Returns the chip of the calling thread's current context.
CUresult keel_emulated_cuda_chip(std::shared_ptr<keel::emulator::Device>* out_chip);
// Returns the stream |handle| of the calling thread's current context; 0 is the default stream. The
// pointer is valid until the stream is destroyed.
CUresult keel_emulated_cuda_stream(CUstream handle, keel::emulator::Stream** out_stream);
}

#endif  // KEEL_EMULATOR_SHIMS_CUDA_SHARING_H_
