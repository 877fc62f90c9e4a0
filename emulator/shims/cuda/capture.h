// SPDX-License-Identifier: Apache-2.0
// Stream captures: the emulation covers only the calls that a capture forbids, and how a call
// breaks a capture. No graph is built.
#ifndef KEEL_EMULATOR_SHIMS_CUDA_CAPTURE_H_
#define KEEL_EMULATOR_SHIMS_CUDA_CAPTURE_H_

#include <cuda.h>

namespace keel::emulator::cuda {

// Sets the calling thread's mode to |mode|. Returns the previous mode.
CUstreamCaptureMode exchange_mode(CUstreamCaptureMode mode);

CUresult begin_capture(CUstream stream, CUstreamCaptureMode mode);
CUresult end_capture(CUstream stream);
CUstreamCaptureStatus capture_status(CUstream stream);
bool is_capturing(CUstream stream);
// Drops the capture of a stream that is being destroyed.
void forget_capture(CUstream stream);

// Breaks the capture of |stream|. Returns the result of the breaking call.
CUresult refuse_and_break(CUstream stream);
// Checks a call that a capture may forbid, such as a query or an allocation. Breaks every capture
// that forbids the call, by the capture's and the calling thread's mode, and returns the error.
CUresult allow_unsafe_call();

}  // namespace keel::emulator::cuda

#endif  // KEEL_EMULATOR_SHIMS_CUDA_CAPTURE_H_
