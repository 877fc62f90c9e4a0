// SPDX-License-Identifier: Apache-2.0
#include "core/held_queue.h"

namespace keel {

Step HeldItem::step() const {
  switch (kind) {
    case Step::Kind::kWork:
      return observed ? observed->step() : Step{};
    case Step::Kind::kWaitGate:
      return {kind, gate->serial(), gate->name(), {}};
    default:
      return {kind, record->serial(), "", {}};
  }
}

HeldItem HeldQueue::pop() {
  parked_on_ = nullptr;
  HeldItem item = std::move(items_.front());
  items_.pop_front();
  return item;
}

}  // namespace keel
