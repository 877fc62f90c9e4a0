// SPDX-License-Identifier: Apache-2.0
// Stream captures. A capture never yields a graph.
#include <cuda.h>

#include "emulator/shims/cuda/capture.h"
#include "emulator/shims/cuda/driver.h"

using namespace keel::emulator::cuda;  // NOLINT: the functions below are C functions

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
    // Stream 0 cannot be captured.
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
