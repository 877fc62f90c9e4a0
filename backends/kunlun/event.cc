// SPDX-License-Identifier: Apache-2.0
#include "backends/kunlun/event.h"

#include <utility>

namespace keel::kunlun {

keel_status Event::create(Device& device, std::unique_ptr<Event>* out_event) {
  std::unique_ptr<Event> event(new Event(device));
  const keel_status status = device.call("xpu_event_create", [&](const xre::Functions& xpu) {
    return xpu.event_create(&event->native_);
  });
  if (status == KEEL_OK) *out_event = std::move(event);
  return status;
}

Event::~Event() {
  if (native_ == nullptr || (waiter_ != nullptr && !waiter_->forget(number_))) return;
  (void)device_.release("xpu_event_destroy",
                        [&](const xre::Functions& xpu) { return xpu.event_destroy(native_); });
}

keel_status Event::record(const Stream& stream) {
  if (waiter_ != nullptr) (void)waiter_->forget(number_);
  const keel_status status = device_.call("xpu_event_record", [&](const xre::Functions& xpu) {
    return xpu.event_record(native_, stream.native());
  });
  if (status != KEEL_OK) return status;
  number_ = stream.waiter()->add(native_);
  waiter_ = stream.waiter();
  return KEEL_OK;
}

// An event may be over before its device is lost, which the waiter does not see.
keel_status Event::query() {
  const keel_status state = device_.state();
  if (state != KEEL_OK) return state;
  int result = xre::kSuccess;
  if (!waiter_->query(number_, &result)) return KEEL_NOT_READY;
  return device_.check("xpu_event_wait", result);
}

keel_status Event::wait(int64_t timeout_ns) {
  const keel_status state = device_.state();
  if (state != KEEL_OK) return state;
  int result = xre::kSuccess;
  if (!waiter_->wait(number_, timeout_ns, &result)) return KEEL_TIMED_OUT;
  return device_.check("xpu_event_wait", result);
}

void Event::notify(keel_notify_fn fn, void* user) {
  const keel_status state = device_.state();
  if (state != KEEL_OK) return fn(user, state);
  waiter_->notify(number_, fn, user);
}

keel_status Event::hold_back(const Stream& stream) {
  return device_.call("xpu_stream_wait_event", [&](const xre::Functions& xpu) {
    return xpu.stream_wait_event(stream.native(), native_);
  });
}

}  // namespace keel::kunlun
