// SPDX-License-Identifier: Apache-2.0
// What is behind the face's handles.
#ifndef KEEL_EMULATOR_FACES_CUDA_HANDLES_H_
#define KEEL_EMULATOR_FACES_CUDA_HANDLES_H_

#include <cuda.h>

#include <memory>

#include "emulator/event.h"
#include "emulator/faces/cuda/capture.h"
#include "emulator/faces/cuda/driver.h"
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
  std::atomic<bool> captured{false};  // recorded last in a capture
};

inline StreamHandle* object(CUstream handle) {
  return reinterpret_cast<StreamHandle*>(handle);
}
inline EventHandle* object(CUevent handle) {
  return reinterpret_cast<EventHandle*>(handle);
}

// The stream |handle|, 0 being the context's own. CUDA_ERROR_INVALID_CONTEXT for one of a
// context that is not current: the real driver is more patient with some calls.
inline CUresult find_stream(const Here& here, CUstream handle, Stream** out_stream) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY)
    return here.context->default_stream(out_stream);
  // Graphs are not emulated: what the real driver would put into one breaks the capture here.
  if (is_capturing(handle)) return refuse_and_break(handle);
  *out_stream = object(handle)->stream.get();
  return &(*out_stream)->device() == here.chip.get() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

}  // namespace keel::emulator::cuda

#endif  // KEEL_EMULATOR_FACES_CUDA_HANDLES_H_
