// SPDX-License-Identifier: Apache-2.0
// A framework's captures of CUDA graphs, which go on beside Keel's calls.
#ifndef KEEL_BACKENDS_CUDA_CAPTURE_H_
#define KEEL_BACKENDS_CUDA_CAPTURE_H_

#include <cuda.h>

#include "backends/cuda/driver.h"

namespace keel::cuda {

// While it lives, the calling thread's calls are none of a capture's business: without it a
// capture that any other thread has begun in the global mode is broken by a query or an
// allocation here, which fails as well.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Functions& cu) : exchange_(cu.ThreadExchangeStreamCaptureMode) {
    if (exchange_ != nullptr && exchange_(&mode_) != CUDA_SUCCESS) exchange_ = nullptr;
  }
  ~RelaxedCapture() {
    if (exchange_ != nullptr) (void)exchange_(&mode_);
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  decltype(Functions::ThreadExchangeStreamCaptureMode) exchange_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;  // then the thread's own
};

// Whether |result| says that a capture forbade the call: nothing about the work that it asked for.
inline bool is_of_capture(CUresult result) {
  return result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
         result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

}  // namespace keel::cuda

#endif  // KEEL_BACKENDS_CUDA_CAPTURE_H_
