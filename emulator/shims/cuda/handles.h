// SPDX-License-Identifier: Apache-2.0
// The objects behind the shim's handles.
#ifndef KEEL_EMULATOR_SHIMS_CUDA_HANDLES_H_
#define KEEL_EMULATOR_SHIMS_CUDA_HANDLES_H_

#include <cuda.h>

#include <memory>

#include "emulator/event.h"
#include "emulator/shims/cuda/capture.h"
#include "emulator/shims/cuda/driver.h"
#include "emulator/stream.h"

namespace keel::emulator::cuda {

struct StreamHandle {
  Context* context;
  std::unique_ptr<Stream> stream;
};

struct EventHandle {
  std::shared_ptr<Device> chip;
  Event event;
  bool timing;
  std::atomic<bool> recorded{false};
  std::atomic<bool> captured{false};  // the last record was captured
};

inline StreamHandle* object(CUstream handle) {
  return reinterpret_cast<StreamHandle*>(handle);
}
inline EventHandle* object(CUevent handle) {
  return reinterpret_cast<EventHandle*>(handle);
}

// Finds the stream |handle|; 0 is the context's default stream. Returns CUDA_ERROR_INVALID_CONTEXT
// for a stream of a context that is not current (the real driver accepts some calls).
inline CUresult find_stream(const Here& here, CUstream handle, Stream** out_stream) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY)
    return here.context->default_stream(out_stream);
  // Graphs are not emulated: a call that the real driver would add to a graph breaks the capture.
  if (is_capturing(handle)) return refuse_and_break(handle);
  *out_stream = object(handle)->stream.get();
  return &(*out_stream)->device() == here.chip.get() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

}  // namespace keel::emulator::cuda

#endif  // KEEL_EMULATOR_SHIMS_CUDA_HANDLES_H_
