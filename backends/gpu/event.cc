// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/event.h"

#include <algorithm>

#include "backends/gpu/result_codes.h"

namespace keel::gpu {

keel_status Event::create(Device& device, uint32_t flags, std::unique_ptr<Event>* out_event) {
  std::unique_ptr<Event> event(new Event(device));
  // An event without timing is cheaper, and only such an event is fast to query.
  const unsigned int native_flags =
      (flags & KEEL_EVENT_TIMING) != 0 ? kEventDefault : kEventDisableTiming;
  const keel_status status = device.call(Names::EventCreate, [&](const Functions& api) {
    return api.EventCreate(&event->native_, native_flags);
  });
  if (status == KEEL_OK) *out_event = std::move(event);
  return status;
}

Event::~Event() {
  if (native_ == nullptr) return;
  (void)device_.release(Names::EventDestroy,
                        [&](const Functions& api) { return api.EventDestroy(native_); });
}

keel_status Event::record(const Stream& stream) {
  return stream.call(Names::EventRecord, [&](const Functions& api) {
    return api.EventRecord(native_, stream.native());
  });
}

keel_status Event::query() {
  return device_.call(Names::EventQuery, [&](const Functions& api) {
    // If a capture forbids the query, the work counts as unfinished: its memory must not be reused.
    const Result result = api.EventQuery(native_);
    return is_of_capture(result) ? kErrorNotReady : result;
  });
}

keel_status Event::hold_back(const Stream& stream) {
  return stream.call(Names::StreamWaitEvent, [&](const Functions& api) {
    return api.StreamWaitEvent(stream.native(), native_, kEventWaitDefault);
  });
}

keel_status Event::elapsed_since(const Event& start, uint64_t* out_nanoseconds) {
  float milliseconds = 0;
  const keel_status status = device_.call(Names::EventElapsedTime, [&](const Functions& api) {
    return api.EventElapsedTime(&milliseconds, start.native_, native_);
  });
  *out_nanoseconds = static_cast<uint64_t>(std::max(0.0, double{milliseconds} * 1e6));
  return status;
}

}  // namespace keel::gpu
