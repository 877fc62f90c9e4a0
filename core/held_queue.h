// SPDX-License-Identifier: Apache-2.0
// The work that a stream holds back behind gates and events of other devices.
#ifndef KEEL_CORE_HELD_QUEUE_H_
#define KEEL_CORE_HELD_QUEUE_H_

#include <keel/abi.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "core/event.h"
#include "core/gate.h"
#include "core/observer.h"
#include "core/ref_counted.h"
#include "core/status.h"

namespace keel {

// Work that owns its arguments.
using HeldWork = std::function<Status(keel_plugin_stream*)>;

// The report to observers when held work is reached.
struct ObservedWork {
  const char* name;
  uint64_t serial;
  AccessList accesses;
  Step step() const { return {Step::Kind::kWork, serial, name, accesses.all()}; }
};

// One item: work, a record, or a wait for an event or a gate.
struct HeldItem {
  Step::Kind kind;
  uint64_t position;  // of the stream when the item was enqueued
  HeldWork work;
  Ref<EventRecord> record;
  Ref<Gate> gate;
  std::unique_ptr<const ObservedWork> observed;  // empty if no observer was set

  Step step() const;
};

// First in, first out. Not thread-safe: guarded by the stream's lock.
class HeldQueue {
 public:
  bool empty() const { return items_.empty(); }
  size_t size() const { return items_.size(); }
  // Requires an item.
  const HeldItem& head() const { return items_.front(); }
  // Throws std::bad_alloc, and then has changed nothing.
  void push(HeldItem item) { items_.push_back(std::move(item)); }
  // Removes the head, for which the stream no longer parks. Requires an item.
  HeldItem pop();

  // The gate at the head; empty if the head is no gate.
  Ref<Gate> head_gate() const { return items_.empty() ? Ref<Gate>() : items_.front().gate; }
  // Whether |gate| is the last item.
  bool ends_with(const Gate& gate) const {
    return !items_.empty() && items_.back().gate.get() == &gate;
  }

  // The event or gate of the head that will wake the stream: the stream registers once for each.
  bool is_parked_on(const void* waker) const { return parked_on_ == waker; }
  void park_on(const void* waker) { parked_on_ = waker; }

 private:
  std::deque<HeldItem> items_;
  const void* parked_on_ = nullptr;
};

}  // namespace keel

#endif  // KEEL_CORE_HELD_QUEUE_H_
