// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/event.h"

#include <algorithm>

namespace keel::cuda {

keel_status Event::create(Device& device, uint32_t flags, std::unique_ptr<Event>* out_event) {
  std::unique_ptr<Event> event(new Event(device));
  // An event without timing is cheaper, and only such an event is fast to query.
  const unsigned int native_flags =
      (flags & KEEL_EVENT_TIMING) != 0 ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING;
  const keel_status status = device.call("cuEventCreate", [&](const Functions& cu) {
    return cu.EventCreate(&event->native_, native_flags);
  });
  if (status == KEEL_OK) *out_event = std::move(event);
  return status;
}

Event::~Event() {
  if (native_ == nullptr) return;
  (void)device_.release("cuEventDestroy",
                        [&](const Functions& cu) { return cu.EventDestroy(native_); });
}

keel_status Event::record(const Stream& stream) {
  return stream.call("cuEventRecord",
                     [&](const Functions& cu) { return cu.EventRecord(native_, stream.native()); });
}

keel_status Event::query() {
  return device_.call("cuEventQuery", [&](const Functions& cu) {
    // If a capture forbids the query, the work counts as unfinished: its memory must not be reused.
    const CUresult result = cu.EventQuery(native_);
    return is_of_capture(result) ? CUDA_ERROR_NOT_READY : result;
  });
}

keel_status Event::hold_back(const Stream& stream) {
  return stream.call("cuStreamWaitEvent", [&](const Functions& cu) {
    return cu.StreamWaitEvent(stream.native(), native_, CU_EVENT_WAIT_DEFAULT);
  });
}

keel_status Event::elapsed_since(const Event& start, uint64_t* out_nanoseconds) {
  float milliseconds = 0;
  const keel_status status = device_.call("cuEventElapsedTime", [&](const Functions& cu) {
    return cu.EventElapsedTime(&milliseconds, start.native_, native_);
  });
  *out_nanoseconds = static_cast<uint64_t>(std::max(0.0, double{milliseconds} * 1e6));
  return status;
}

}  // namespace keel::cuda
