// SPDX-License-Identifier: Apache-2.0
// A stream's progress, by which the allocator decides when memory is free.
#ifndef KEEL_CORE_TIMELINE_H_
#define KEEL_CORE_TIMELINE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>

#include "core/event.h"
#include "core/ref_counted.h"

namespace keel {

class Stream;

// The positions of one stream: the number of items enqueued, and the number known to be over. A
// timeline outlives the stream and keeps nothing of it alive, so freed memory may refer to a
// timeline indefinitely. Thread-safe.
class Timeline final : public RefCounted {
 public:
  // |id| is never given to another stream.
  Timeline(Stream& stream, uint64_t id) : id_(id), stream_(&stream) {}

  uint64_t id() const { return id_; }
  uint64_t enqueued() const { return enqueued_.load(std::memory_order_acquire); }
  // Returns whether all work up to |position| is known to be over; costs one load.
  bool is_done(uint64_t position) const {
    return done_.load(std::memory_order_acquire) >= position;
  }
  // Like is_done(), after asking the stream; false also while another thread enqueues on it. With
  // |may_fence|, an undecided poll records an event, at most one per position, for later polls.
  bool poll(uint64_t position, bool may_fence, WakeList& wake);
  // Returns the stream; empty once the stream is gone.
  Ref<Stream> stream();

  // Returns whether this stream has waited for |position| of the stream |other|, directly or by way
  // of a third stream. Only the last kWaits awaited streams are remembered.
  bool is_behind(uint64_t other, uint64_t position);

  // Called by the stream with the stream's mutex held. A thread that has learned of the return of
  // advance() finds the timeline in the busy list.
  void advance(uint64_t position) {
    enqueued_.store(position, std::memory_order_release);
    if (!busy_.load(std::memory_order_relaxed)) set_busy();
  }
  void mark_done(uint64_t position);
  // Called when all enqueued work is done.
  void set_idle();
  // The device's queue holds a wait, at |position| of this stream, for |other_position| of |other|.
  void waits_for(Timeline& other, uint64_t other_position, uint64_t position);
  void forget_waits();
  // The stream ends, with all work over.
  void finish();

  // Calls |visit| with the timeline of every stream in the process not known to be idle.
  template <typename Visit>
  static void for_each_busy(const Visit& visit) {
    BusyList& list = busy_list();
    if (list.count.load(std::memory_order_acquire) == 0) return;
    std::lock_guard lock(list.mutex);
    for (Timeline* timeline = list.first; timeline != nullptr; timeline = timeline->next_) {
      visit(*timeline);
    }
  }

 private:
  // Intrusive, so that becoming busy allocates nothing.
  struct BusyList {
    std::mutex mutex;  // leaf lock
    std::atomic<uint32_t> count{0};
    Timeline* first = nullptr;
  };
  struct Wait {
    uint64_t stream = 0;  // id; 0: none
    uint64_t position = 0;
    uint64_t at = 0;  // own position of the wait
  };
  // Memory moves between few streams: compute, copies in and copies out.
  static constexpr size_t kWaits = 8;

  static BusyList& busy_list();
  void set_busy();
  void remember(const Wait& wait);

  const uint64_t id_;
  std::atomic<uint64_t> enqueued_{0};
  std::atomic<uint64_t> done_{0};
  std::atomic<bool> busy_{false};
  Timeline* previous_ = nullptr;  // links of the busy list, guarded by its mutex
  Timeline* next_ = nullptr;

  std::mutex mutex_;  // guards the members below
  Stream* stream_;
  std::array<Wait, kWaits> waits_;
};

}  // namespace keel

#endif  // KEEL_CORE_TIMELINE_H_
