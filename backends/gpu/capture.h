// SPDX-License-Identifier: Apache-2.0
// Coexistence of Keel's calls with a framework's graph captures.
#ifndef KEEL_BACKENDS_GPU_CAPTURE_H_
#define KEEL_BACKENDS_GPU_CAPTURE_H_

#include <gpu_target.h>

#include "backends/gpu/result_codes.h"

namespace keel::gpu {

// While an object exists, the calling thread's calls do not interfere with captures. Otherwise a
// query or an allocation here would fail and would invalidate a capture that any other thread has
// begun in global mode.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Functions& api) : exchange_(api.ThreadExchangeStreamCaptureMode) {
    if (exchange_ != nullptr && exchange_(&mode_) != kSuccess) exchange_ = nullptr;
  }
  ~RelaxedCapture() {
    if (exchange_ != nullptr) (void)exchange_(&mode_);
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  decltype(Functions::ThreadExchangeStreamCaptureMode) exchange_;
  CaptureMode mode_ = kCaptureRelaxed;  // later the previous mode
};

// Whether a capture forbade the call. |result| then says nothing about the work in question.
inline bool is_of_capture(Result result) {
  return result >= kErrorStreamCaptureUnsupported && result <= kErrorStreamCaptureWrongThread;
}

}  // namespace keel::gpu

#endif  // KEEL_BACKENDS_GPU_CAPTURE_H_
