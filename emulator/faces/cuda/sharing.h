// SPDX-License-Identifier: Apache-2.0
// What the faces of Nvidia's other libraries, which stand over the same chips, ask the one of the
// driver. They find it beside them and look these up by name; all are of one build, so objects of
// the chip cross.
#ifndef KEEL_EMULATOR_FACES_CUDA_SHARING_H_
#define KEEL_EMULATOR_FACES_CUDA_SHARING_H_

#include <cuda.h>

#include <memory>

#include "emulator/device.h"
#include "emulator/stream.h"

extern "C" {

// The chip of the calling thread's current context.
CUresult keel_emulated_cuda_chip(std::shared_ptr<keel::emulator::Device>* out_chip);
// The stream |handle| of that context, 0 being its own. It lives until it is destroyed.
CUresult keel_emulated_cuda_stream(CUstream handle, keel::emulator::Stream** out_stream);
}

#endif  // KEEL_EMULATOR_FACES_CUDA_SHARING_H_
