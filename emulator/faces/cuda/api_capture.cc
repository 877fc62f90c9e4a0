// SPDX-License-Identifier: Apache-2.0
// Captures of streams. Of the graph that one ends in there is nothing to run.
#include <cuda.h>

#include "emulator/faces/cuda/capture.h"
#include "emulator/faces/cuda/driver.h"

using namespace keel::emulator::cuda;  // NOLINT: the functions below are C's

extern "C" {

CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return answer([&] {
    if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *mode = exchange_mode(*mode);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode) {
  return answer_here([&](const Here&) {
    // The stream 0 has none.
    if (hStream == nullptr || hStream == CU_STREAM_LEGACY) {
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return begin_capture(hStream, mode);
  });
}

CUresult CUDAAPI cuStreamEndCapture(CUstream hStream, CUgraph* phGraph) {
  return answer_here([&](const Here&) {
    if (phGraph == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *phGraph = nullptr;
    return end_capture(hStream);
  });
}

CUresult CUDAAPI cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus* captureStatus) {
  return answer_here([&](const Here&) {
    if (captureStatus == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *captureStatus = capture_status(hStream);
    return CUDA_SUCCESS;
  });
}

}  // extern "C"
