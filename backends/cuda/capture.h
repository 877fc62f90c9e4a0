// SPDX-License-Identifier: Apache-2.0
// Coexistence of Keel's calls with a framework's CUDA graph captures.
#ifndef KEEL_BACKENDS_CUDA_CAPTURE_H_
#define KEEL_BACKENDS_CUDA_CAPTURE_H_

#include <cuda.h>

#include "backends/cuda/driver.h"

namespace keel::cuda {

// While an object exists, the calling thread's calls do not interfere with captures. Otherwise a
// query or an allocation here would fail and would invalidate a capture that any other thread has
// begun in global mode.
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
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;  // later the previous mode
};

// Whether a capture forbade the call. |result| then says nothing about the work in question.
inline bool is_of_capture(CUresult result) {
  return result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
         result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

}  // namespace keel::cuda

#endif  // KEEL_BACKENDS_CUDA_CAPTURE_H_
