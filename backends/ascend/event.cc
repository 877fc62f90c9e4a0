// SPDX-License-Identifier: Apache-2.0
#include "backends/ascend/event.h"

#include <algorithm>

namespace keel::ascend {

keel_status Event::create(Device& device, uint32_t flags, std::unique_ptr<Event>* out_event) {
  std::unique_ptr<Event> event(new Event(device));
  const uint32_t native_flags =
      ACL_EVENT_SYNC | ((flags & KEEL_EVENT_TIMING) != 0 ? ACL_EVENT_TIME_LINE : 0);
  const keel_status status = device.call("aclrtCreateEventExWithFlag", [&](const Functions& acl) {
    return acl.aclrtCreateEventExWithFlag(&event->native_, native_flags);
  });
  if (status == KEEL_OK) *out_event = std::move(event);
  return status;
}

Event::~Event() {
  if (native_ == nullptr) return;
  (void)device_.release("aclrtDestroyEvent",
                        [&](const Functions& acl) { return acl.aclrtDestroyEvent(native_); });
}

keel_status Event::record(const Stream& stream) {
  return device_.call("aclrtRecordEvent", [&](const Functions& acl) {
    return acl.aclrtRecordEvent(native_, stream.native());
  });
}

keel_status Event::query() {
  aclrtEventRecordedStatus answer = ACL_EVENT_RECORDED_STATUS_NOT_READY;
  const keel_status status = device_.call("aclrtQueryEventStatus", [&](const Functions& acl) {
    return acl.aclrtQueryEventStatus(native_, &answer);
  });
  if (status != KEEL_OK) return status;
  return answer == ACL_EVENT_RECORDED_STATUS_COMPLETE ? KEEL_OK : KEEL_NOT_READY;
}

keel_status Event::hold_back(const Stream& stream) {
  return device_.call("aclrtStreamWaitEvent", [&](const Functions& acl) {
    return acl.aclrtStreamWaitEvent(stream.native(), native_);
  });
}

keel_status Event::elapsed_since(const Event& start, uint64_t* out_nanoseconds) {
  float milliseconds = 0;
  const keel_status status = device_.call("aclrtEventElapsedTime", [&](const Functions& acl) {
    return acl.aclrtEventElapsedTime(&milliseconds, start.native_, native_);
  });
  *out_nanoseconds = static_cast<uint64_t>(std::max(0.0, double{milliseconds} * 1e6));
  return status;
}

}  // namespace keel::ascend
