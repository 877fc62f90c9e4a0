// SPDX-License-Identifier: Apache-2.0
#include "collectives/priority_arbiter.h"

#include <utility>

#include "core/deadline.h"
#include "core/observer.h"

namespace keel {

PriorityArbiter& PriorityArbiter::get() {
  static auto& created = *new PriorityArbiter;
  return created;
}

void PriorityArbiter::add(std::shared_ptr<ControlSegment> segment) {
  std::lock_guard lock(mutex_);
  segments_.push_back(std::move(segment));
  count_.store(static_cast<uint32_t>(segments_.size()), std::memory_order_relaxed);
}

void PriorityArbiter::remove(const ControlSegment& segment) {
  std::lock_guard lock(mutex_);
  std::erase_if(segments_, [&](const auto& known) { return known.get() == &segment; });
  count_.store(static_cast<uint32_t>(segments_.size()), std::memory_order_relaxed);
}

std::shared_ptr<ControlSegment> PriorityArbiter::find_under_way() {
  std::lock_guard lock(mutex_);
  for (const auto& segment : segments_) {
    if (segment->is_under_way()) return segment;
  }
  return {};
}

bool PriorityArbiter::yield_to_urgent() {
  std::shared_ptr<ControlSegment> segment = find_under_way();
  if (!segment) return false;
  const HostSpan span("yields");
  const Deadline deadline = Deadline::after(kMostNs);
  while (segment && !deadline.passed()) {
    segment->await_over(deadline);
    segment = find_under_way();
  }
  return true;
}

}  // namespace keel
