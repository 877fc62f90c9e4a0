// SPDX-License-Identifier: Apache-2.0
// For the emulated RCCL: as in emulator/shims/cuda/sharing.cc, with the calling thread's device.
#include "emulator/shims/cuda/sharing.h"

#include "emulator/shims/cuda/handles.h"
#include "emulator/shims/hip/current_device.h"

using namespace keel::emulator::cuda;  // NOLINT: the functions below are C functions

extern "C" {

CUresult keel_emulated_cuda_chip(std::shared_ptr<keel::emulator::Device>* out_chip) {
  const CUresult entered = keel::emulator::hip::enter();
  if (entered != CUDA_SUCCESS) return entered;
  return answer_here([&](const Here& here) {
    *out_chip = here.chip;
    return CUDA_SUCCESS;
  });
}

CUresult keel_emulated_cuda_stream(CUstream handle, keel::emulator::Stream** out_stream) {
  const CUresult entered = keel::emulator::hip::enter();
  if (entered != CUDA_SUCCESS) return entered;
  return answer_here([&](const Here& here) { return find_stream(here, handle, out_stream); });
}

}  // extern "C"
