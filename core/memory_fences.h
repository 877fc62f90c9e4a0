// SPDX-License-Identifier: Apache-2.0
// The fences of one stream that freed memory waits for.
#ifndef KEEL_CORE_MEMORY_FENCES_H_
#define KEEL_CORE_MEMORY_FENCES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

#include "core/event.h"
#include "core/ref_counted.h"
#include "core/timeline.h"

namespace keel {

// Records with their positions in the stream, in rising order. The limit bounds the fences in
// flight of a host far ahead of its device; beyond the limit, the allocator checks the memory again
// later. Not thread-safe: guarded by the stream's lock.
class MemoryFences {
 public:
  // Drops fences that are over, and marks their positions as done on |timeline|.
  // |is_over|(record): whether the record has ended.
  template <typename IsOver>
  void collect(Timeline& timeline, const IsOver& is_over) {
    while (!fences_.empty()) {
      const auto& [position, record] = fences_.front();
      if (!timeline.is_done(position) && !is_over(record)) return;
      timeline.mark_done(position);
      fences_.pop_front();
    }
  }
  // Whether a fence at |position| or later is in flight.
  bool covers(uint64_t position) const {
    return !fences_.empty() && fences_.back().first >= position;
  }
  bool is_full() const { return fences_.size() >= kMost; }
  void add(uint64_t position, const Ref<EventRecord>& record) {
    fences_.emplace_back(position, record);
  }
  // A record may hold the last reference to a stream: a caller that must not end one under the
  // stream's lock swaps the fences out.
  void clear() { fences_.clear(); }
  void swap(MemoryFences& other) { fences_.swap(other.fences_); }

 private:
  static constexpr size_t kMost = 16;

  std::deque<std::pair<uint64_t, Ref<EventRecord>>> fences_;
};

}  // namespace keel

#endif  // KEEL_CORE_MEMORY_FENCES_H_
