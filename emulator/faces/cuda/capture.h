// SPDX-License-Identifier: Apache-2.0
// Captures of streams: of graphs nothing but what they forbid, and how a call breaks them.
#ifndef KEEL_EMULATOR_FACES_CUDA_CAPTURE_H_
#define KEEL_EMULATOR_FACES_CUDA_CAPTURE_H_

#include <cuda.h>

namespace keel::emulator::cuda {

// The calling thread's mode becomes |mode|. Returns the one before.
CUstreamCaptureMode exchange_mode(CUstreamCaptureMode mode);

CUresult begin_capture(CUstream stream, CUstreamCaptureMode mode);
CUresult end_capture(CUstream stream);
CUstreamCaptureStatus capture_status(CUstream stream);
bool is_capturing(CUstream stream);
// Of a stream that is destroyed.
void forget_capture(CUstream stream);

// Breaks the capture of |stream|. Returns what the call answers that did so.
CUresult refuse_and_break(CUstream stream);
// For a call that a capture may forbid, such as a query or an allocation. Where one does, by its
// mode and the calling thread's, it is broken.
CUresult allow_unsafe_call();

}  // namespace keel::emulator::cuda

#endif  // KEEL_EMULATOR_FACES_CUDA_CAPTURE_H_
