// SPDX-License-Identifier: Apache-2.0
#include "backends/level_zero/event_pool.h"

#include <utility>

#include "backends/level_zero/device.h"

namespace keel::gpu {

EventPool::~EventPool() {
  for (const ze::Event event : made_) {
    (void)device_.release("zeEventDestroy",
                          [&](const ze::Functions& ze) { return ze.EventDestroy(event); });
  }
  for (const ze::EventPool pool : pools_) {
    (void)device_.release("zeEventPoolDestroy",
                          [&](const ze::Functions& ze) { return ze.EventPoolDestroy(pool); });
  }
}

void EventPool::collect() {
  const ze::Functions& ze = device_.functions();
  std::erase_if(retired_, [&](Retired& retired) {
    for (const ze::Event passed : retired.passed) {
      if (ze.EventQueryStatus(passed) != ze::kSuccess) return false;
    }
    free_.push_back(retired.event);
    free_.insert(free_.end(), retired.passed.begin(), retired.passed.end());
    return true;
  });
}

keel_status EventPool::take(ze::Event* out_event) {
  const std::lock_guard lock(mutex_);
  collect();
  if (!free_.empty()) {
    const ze::Event event = free_.back();
    const keel_status status = device_.call(
        "zeEventHostReset", [&](const ze::Functions& ze) { return ze.EventHostReset(event); });
    if (status != KEEL_OK) return status;
    free_.pop_back();
    *out_event = event;
    return KEEL_OK;
  }
  if (next_ == kPoolEvents) {
    ze::EventPoolDesc desc;
    desc.count = kPoolEvents;
    ze::EventPool pool = nullptr;
    ze::Device handle = device_.handle();
    pools_.reserve(pools_.size() + 1);
    const keel_status status = device_.call("zeEventPoolCreate", [&](const ze::Functions& ze) {
      return ze.EventPoolCreate(device_.context(), &desc, 1, &handle, &pool);
    });
    if (status != KEEL_OK) return status;
    pools_.push_back(pool);
    next_ = 0;
  }
  ze::EventDesc desc;
  desc.index = next_;
  desc.signal = ze::kEventScopeHost;  // the host reads memory that work before the event wrote
  desc.wait = ze::kEventScopeHost;    // and the reverse
  ze::Event event = nullptr;
  made_.reserve(made_.size() + 1);
  free_.reserve(made_.size() + 1);  // give_back() cannot fail
  const keel_status status = device_.call("zeEventCreate", [&](const ze::Functions& ze) {
    return ze.EventCreate(pools_.back(), &desc, &event);
  });
  if (status != KEEL_OK) return status;
  ++next_;
  made_.push_back(event);
  *out_event = event;
  return KEEL_OK;
}

void EventPool::give_back(ze::Event event) {
  const std::lock_guard lock(mutex_);
  free_.push_back(event);
}

void EventPool::give_back_after(ze::Event event, std::vector<ze::Event> passed) {
  const std::lock_guard lock(mutex_);
  retired_.push_back({event, std::move(passed)});
}

}  // namespace keel::gpu
