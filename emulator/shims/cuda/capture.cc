// SPDX-License-Identifier: Apache-2.0
#include "emulator/shims/cuda/capture.h"

#include <map>
#include <mutex>
#include <thread>

namespace keel::emulator::cuda {
namespace {

struct Capture {
  CUstreamCaptureMode mode;
  std::thread::id thread;
  bool is_broken = false;
};

struct Captures {
  std::mutex mutex;
  std::map<CUstream, Capture> running;
};

// Never destroyed, like the driver's state.
Captures& captures() {
  static Captures& all = *new Captures;
  return all;
}

thread_local CUstreamCaptureMode t_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

// Returns whether |capture| forbids unsafe calls of the calling thread.
bool forbids(const Capture& capture) {
  if (t_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
  if (capture.thread == std::this_thread::get_id()) {
    return capture.mode != CU_STREAM_CAPTURE_MODE_RELAXED;
  }
  return t_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

}  // namespace

CUstreamCaptureMode exchange_mode(CUstreamCaptureMode mode) {
  const CUstreamCaptureMode before = t_mode;
  t_mode = mode;
  return before;
}

CUresult begin_capture(CUstream stream, CUstreamCaptureMode mode) {
  const std::lock_guard lock(captures().mutex);
  const bool is_new =
      captures().running.try_emplace(stream, Capture{mode, std::this_thread::get_id()}).second;
  return is_new ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_STATE;
}

CUresult end_capture(CUstream stream) {
  const std::lock_guard lock(captures().mutex);
  const auto found = captures().running.find(stream);
  if (found == captures().running.end()) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  const Capture capture = found->second;
  if (capture.mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
      capture.thread != std::this_thread::get_id()) {
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  }
  captures().running.erase(found);
  return capture.is_broken ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}

CUstreamCaptureStatus capture_status(CUstream stream) {
  const std::lock_guard lock(captures().mutex);
  const auto found = captures().running.find(stream);
  if (found == captures().running.end()) return CU_STREAM_CAPTURE_STATUS_NONE;
  return found->second.is_broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                 : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

bool is_capturing(CUstream stream) {
  return capture_status(stream) != CU_STREAM_CAPTURE_STATUS_NONE;
}

void forget_capture(CUstream stream) {
  const std::lock_guard lock(captures().mutex);
  captures().running.erase(stream);
}

CUresult refuse_and_break(CUstream stream) {
  const std::lock_guard lock(captures().mutex);
  if (const auto found = captures().running.find(stream); found != captures().running.end()) {
    found->second.is_broken = true;
  }
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult allow_unsafe_call() {
  const std::lock_guard lock(captures().mutex);
  CUresult result = CUDA_SUCCESS;
  for (auto& [stream, capture] : captures().running) {
    if (!forbids(capture)) continue;
    capture.is_broken = true;
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}

}  // namespace keel::emulator::cuda
