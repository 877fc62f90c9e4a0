// SPDX-License-Identifier: Apache-2.0
// The current device of each thread, which HIP has in place of contexts. Each thread begins with
// device 0; a device opens at its first use by any thread and stays open, so a lost device stays
// lost.
#ifndef KEEL_EMULATOR_SHIMS_HIP_CURRENT_DEVICE_H_
#define KEEL_EMULATOR_SHIMS_HIP_CURRENT_DEVICE_H_

#include <cuda.h>

#include "vendor/hip.h"

namespace keel::emulator::hip {

// HIP's results have the numbers of CUDA's, and its handles are those of the emulated driver.
inline hipError_t result_of(CUresult result) {
  return static_cast<hipError_t>(result);
}
inline CUstream native(hipStream_t stream) {
  return reinterpret_cast<CUstream>(stream);
}
inline CUevent native(hipEvent_t event) {
  return reinterpret_cast<CUevent>(event);
}

// Initialises the library, as each function of HIP may.
CUresult initialize();
// Opens |device|. Returns CUDA_ERROR_INVALID_DEVICE if there is none.
CUresult open_device(int device, CUcontext* out_context);
int current_device();
CUresult select_device(int device);
// Makes the context of the thread's device current, for functions of the emulated driver.
CUresult enter();

// Runs |body|, which returns a CUresult, with the thread's device.
template <typename Body>
hipError_t on_device(Body&& body) noexcept {
  const CUresult entered = enter();
  return result_of(entered == CUDA_SUCCESS ? body() : entered);
}

}  // namespace keel::emulator::hip

#endif  // KEEL_EMULATOR_SHIMS_HIP_CURRENT_DEVICE_H_
