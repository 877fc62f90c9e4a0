// SPDX-License-Identifier: Apache-2.0
#include "emulator/shims/cuda/sharing.h"

#include "emulator/shims/cuda/handles.h"

using namespace keel::emulator::cuda;  // NOLINT: the functions below are C functions

extern "C" {

CUresult keel_emulated_cuda_chip(std::shared_ptr<keel::emulator::Device>* out_chip) {
  return answer_here([&](const Here& here) {
    *out_chip = here.chip;
    return CUDA_SUCCESS;
  });
}

CUresult keel_emulated_cuda_stream(CUstream handle, keel::emulator::Stream** out_stream) {
  return answer_here([&](const Here& here) { return find_stream(here, handle, out_stream); });
}

}  // extern "C"
