// SPDX-License-Identifier: Apache-2.0
#include "backends/level_zero/event.h"

#include <utility>

namespace keel::gpu {

keel_status Event::create(Device& device, uint32_t flags, std::unique_ptr<Event>* out_event) {
  std::unique_ptr<Event> event(new Event(device));
  keel_status status = device.events().take(&event->native_);
  if (status == KEEL_OK && (flags & KEEL_EVENT_TIMING) != 0) {
    void* time = nullptr;
    status = device.alloc(KEEL_MEMORY_PINNED, sizeof(*event->time_), &time);
    event->time_ = static_cast<uint64_t*>(time);
  }
  if (status == KEEL_OK) *out_event = std::move(event);
  return status;
}

Event::~Event() {
  if (native_ != nullptr) device_.events().give_back(native_);
  if (time_ != nullptr) (void)device_.free(KEEL_MEMORY_PINNED, time_);
}

keel_status Event::record(Stream& stream) {
  const keel_status status = device_.call(
      "zeEventHostReset", [&](const ze::Functions& ze) { return ze.EventHostReset(native_); });
  if (status != KEEL_OK) return status;
  return time_ == nullptr ? stream.signal(native_) : stream.write_timestamp(time_, native_);
}

keel_status Event::query() {
  const keel_status status = device_.call(
      "zeEventQueryStatus", [&](const ze::Functions& ze) { return ze.EventQueryStatus(native_); });
  if (status != KEEL_NOT_READY) return status;
  const keel_status loss = device_.look_for_loss();
  return loss == KEEL_OK ? status : loss;
}

keel_status Event::wait(int64_t timeout_ns) {
  const keel_status status = device_.call("zeEventHostSynchronize", [&](const ze::Functions& ze) {
    return ze.EventHostSynchronize(native_, static_cast<uint64_t>(timeout_ns));
  });
  return status == KEEL_NOT_READY ? keel_status{KEEL_TIMED_OUT} : status;
}

keel_status Event::hold_back(Stream& stream) {
  return stream.wait(native_);
}

keel_status Event::elapsed_since(const Event& start, uint64_t* out_nanoseconds) {
  if (time_ == nullptr || start.time_ == nullptr) {
    return kit::fail(KEEL_FAILED_PRECONDITION, "level_zero: an event without timing");
  }
  // The clock wraps around at its valid bits.
  const uint64_t ticks = (*time_ - *start.time_) & device_.timestamp_mask();
  *out_nanoseconds = ticks * device_.timer_resolution();
  return KEEL_OK;
}

keel_status Gate::create(Device& device, std::unique_ptr<Gate>* out_gate) {
  std::unique_ptr<Gate> gate(new Gate(device));
  const keel_status status = device.events().take(&gate->native_);
  if (status == KEEL_OK) *out_gate = std::move(gate);
  return status;
}

Gate::~Gate() {
  // The gate may be destroyed before the streams behind it have seen it open.
  if (native_ != nullptr) device_.events().give_back_after(native_, std::move(passed_));
}

keel_status Gate::open() {
  return device_.call("zeEventHostSignal",
                      [&](const ze::Functions& ze) { return ze.EventHostSignal(native_); });
}

keel_status Gate::hold_back(Stream& stream) {
  passed_.reserve(passed_.size() + 1);
  ze::Event passed = nullptr;
  const keel_status status = device_.events().take(&passed);
  if (status != KEEL_OK) return status;
  passed_.push_back(passed);
  return stream.wait(native_, passed);
}

}  // namespace keel::gpu
