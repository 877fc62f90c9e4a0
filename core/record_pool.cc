#include "core/record_pool.h"

#include <memory>
#include <utility>

#include "core/stream.h"

namespace keel {

EventRecord* RecordPool::closed() {
  alignas(EventRecord) static char mark;
  return reinterpret_cast<EventRecord*>(&mark);
}

void RecordPool::give_back(EventRecord* record) noexcept {
  EventRecord* first = returned_.load(std::memory_order_relaxed);
  while (first != closed()) {
    record->next_ = first;
    // From here on the record, and its stream with it, may be gone.
    if (returned_.compare_exchange_weak(first, record, std::memory_order_release,
                                        std::memory_order_relaxed)) {
      return;
    }
  }
  record->next_ = nullptr;
  retire_all(record);
}

void RecordPool::sort_returned() {
  if (returned_.load(std::memory_order_relaxed) == closed()) return;
  EventRecord* last = returned_.exchange(nullptr, std::memory_order_acquire);
  EventRecord* first = nullptr;
  while (last != nullptr) {
    EventRecord* before = last->next_;
    last->next_ = first;
    first = std::exchange(last, before);
  }
  const uint64_t over = over_.load(std::memory_order_relaxed);
  while (first != nullptr) {
    EventRecord* record = std::exchange(first, first->next_);
    Kind& kind = kinds_[record->flags_ & KEEL_EVENT_TIMING];
    if (record->state() != EventRecord::State::kSubmitted || record->order_ <= over) {
      record->next_ = std::exchange(kind.idle, record);
      continue;
    }
    record->next_ = nullptr;
    (kind.last_pending == nullptr ? kind.first_pending : kind.last_pending->next_) = record;
    kind.last_pending = record;
    ++kind.pending;
  }
}

void RecordPool::reclaim_pending(Kind& kind) {
  if (kind.pending < kind.look_at) return;
  EventRecord* asked = kind.first_pending;
  for (uint32_t i = 1; i < kBatch; ++i) asked = asked->next_;
  if (asked->device().stream_table()->event_query(asked->native()) == KEEL_NOT_READY) {
    kind.look_at = kind.pending + kBatch;
    return;
  }
  take_plugin_text();  // how it ended is not asked here
  kind.look_at = kBatch;
  const uint64_t order = asked->order_;
  note_over(order);
  EventRecord** link = &kind.first_pending;
  EventRecord* kept = nullptr;
  for (uint32_t i = 0; i < kBatch; ++i) {
    EventRecord* record = *link;
    if (record->order_ > order) {  // it was let go of early
      kept = record;
      link = &record->next_;
      continue;
    }
    *link = record->next_;
    record->next_ = std::exchange(kind.idle, record);
    --kind.pending;
  }
  if (*link == nullptr) kind.last_pending = kept;
}

Status RecordPool::refill(Stream& stream, uint32_t flags, Kind& kind) {
  sort_returned();
  if (kind.idle == nullptr) reclaim_pending(kind);
  if (kind.idle != nullptr) return {};
  Device& device = stream.device();
  const bool timing = (flags & KEEL_EVENT_TIMING) != 0;
  if (timing && !device.claims(KEEL_CLAIM_TIMING)) {
    return failure(KEEL_UNSUPPORTED, "{} has no timing events", device.name());
  }
  auto record = std::make_unique<EventRecord>(stream, flags);
  KEEL_RETURN_IF_ERROR(
      device.check(device.stream_table()->event_create(
                       device.native(), timing ? KEEL_EVENT_TIMING : 0, &record->native_),
                   "stream.event_create"));
  kind.idle = record.release();
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
    add(std::exchange(kind.idle, nullptr));
    add(std::exchange(kind.first_pending, nullptr));
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
