// SPDX-License-Identifier: Apache-2.0
#include "core/record_pool.h"

#include <memory>
#include <utility>

#include "core/stream.h"

namespace keel {

Status RecordPool::take(Stream& stream, uint32_t flags, Ref<EventRecord>* out_record) {
  Kind& taken = kind(flags);
  EventRecord* record = peek(taken);
  if (record == nullptr) KEEL_RETURN_IF_ERROR(refill(stream, flags, &record));
  remove_first(taken);
  record->begin_life(EventRecord::kHeldYet);
  *out_record = Ref<EventRecord>::adopt(record);
  return {};
}

void RecordPool::sort_returned() {
  EventRecord* const last = returned_.load(std::memory_order_relaxed);
  if (last == nullptr || last == closed()) return;
  EventRecord* returned = returned_.exchange(nullptr, std::memory_order_acquire);
  struct Part {
    EventRecord* first = nullptr;
    EventRecord* last = nullptr;
    uint32_t count = 0;
  } parts[2];
  while (returned != nullptr) {
    EventRecord* record = std::exchange(returned, returned->next_);
    Part& part = parts[record->flags_ & KEEL_EVENT_TIMING];
    if (part.first == nullptr) part.last = record;
    record->next_ = std::exchange(part.first, record);
    ++part.count;
  }
  for (size_t i = 0; i < 2; ++i) {
    if (parts[i].first == nullptr) continue;
    Kind& kind = kinds_[i];
    (kind.first == nullptr ? kind.first : kind.last->next_) = parts[i].first;
    kind.last = parts[i].last;
    kind.count += parts[i].count;
  }
}

bool RecordPool::ask(Kind& kind) {
  // The latest of them vouches for all.
  EventRecord* asked = kind.first;
  EventRecord* record = kind.first;
  for (uint32_t i = 1; i < Kind::kBatch; ++i) {
    record = record->next_;
    if (record->order_ > asked->order_) asked = record;
  }
  const keel_status code = asked->device().stream_table()->event_query(asked->native());
  if (code == KEEL_NOT_READY) {
    kind.look_at = kind.count + Kind::kBatch;
    return false;
  }
  if (code != KEEL_OK) take_plugin_text();  // the result is not needed here
  kind.look_at = Kind::kBatch;
  note_over(asked->order_);
  return true;
}

EventRecord* RecordPool::find_over(Kind& kind) {
  sort_returned();
  if (EventRecord* record = peek(kind)) return record;
  return kind.count >= kind.look_at && ask(kind) ? kind.first : nullptr;
}

Status RecordPool::refill(Stream& stream, uint32_t flags, EventRecord** out_record) {
  Kind& kind = this->kind(flags);
  *out_record = find_over(kind);
  if (*out_record != nullptr) return {};
  Device& device = stream.device();
  const bool timing = (flags & KEEL_EVENT_TIMING) != 0;
  if (timing && !device.has(KEEL_CAPABILITY_TIMING)) {
    return failure(KEEL_UNSUPPORTED, "{} has no timing events", device.name());
  }
  auto record = std::make_unique<EventRecord>(stream, flags);
  KEEL_RETURN_IF_ERROR(
      device.check(device.stream_table()->event_create(
                       device.native(), timing ? KEEL_EVENT_TIMING : 0, &record->native_),
                   "stream.event_create"));
  if (kind.first == nullptr) kind.last = record.get();
  record->next_ = kind.first;
  kind.first = *out_record = record.release();
  ++kind.count;
  return {};
}

EventRecord* RecordPool::close() {
  sort_returned();
  EventRecord* all = nullptr;
  const auto add = [&](EventRecord* records) {
    while (records != nullptr) {
      EventRecord* record = std::exchange(records, records->next_);
      record->next_ = std::exchange(all, record);
    }
  };
  for (Kind& kind : kinds_) {
    add(std::exchange(kind.first, nullptr));
    kind = {};
  }
  EventRecord* late = returned_.exchange(closed(), std::memory_order_acquire);
  if (late != closed()) add(late);
  return all;
}

void RecordPool::retire_all(EventRecord* records) noexcept {
  while (records != nullptr) {
    EventRecord* record = std::exchange(records, records->next_);
    record->reclaim = [](Retired* self) noexcept { delete static_cast<EventRecord*>(self); };
    retire(record);
  }
}

}  // namespace keel
