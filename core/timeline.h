// SPDX-License-Identifier: Apache-2.0
// How far a stream has come, for whoever has to know when memory is free.
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

// The positions of one stream: things enqueued so far, and how many of them are known to
// be over. It outlives the stream and keeps nothing of it alive, so memory that was freed
// may refer to it for as long as it likes. Thread-safe.
class Timeline final : public RefCounted {
 public:
  // |id|: never given to another stream.
  Timeline(Stream& stream, uint64_t id) : id_(id), stream_(&stream) {}

  uint64_t id() const { return id_; }
  uint64_t enqueued() const { return enqueued_.load(std::memory_order_acquire); }
  // All up to |position| is known to be over; costs one load.
  bool is_done(uint64_t position) const {
    return done_.load(std::memory_order_acquire) >= position;
  }
  // The same after a look at the stream; false also when another thread is enqueueing on
  // it. |may_fence|: if it cannot tell otherwise it records an event, at most one for each
  // position, and later looks will know.
  bool poll(uint64_t position, bool may_fence, WakeList& wake);
  // The stream; empty once it is gone.
  Ref<Stream> stream();

  // Whether this stream has waited for |position| of the stream |other|, itself or by way
  // of a stream that had; it remembers the last few streams it waited for.
  bool is_behind(uint64_t other, uint64_t position);

  // For the stream, with its mutex held. Whoever has heard that advance() returned finds
  // this timeline among the busy ones.
  void advance(uint64_t position) {
    enqueued_.store(position, std::memory_order_release);
    if (!busy_.load(std::memory_order_relaxed)) set_busy();
  }
  void mark_done(uint64_t position);
  // Call when all that is enqueued is done.
  void set_idle();
  // The device's queue holds a wait, at |position| here, for |other_position| of |other|.
  void waits_for(Timeline& other, uint64_t other_position, uint64_t position);
  void forget_waits();
  // The stream goes, all its work over.
  void finish();

  // Calls |visit| with every stream in the process that is not known to be idle.
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
    std::mutex mutex;  // a leaf
    std::atomic<uint32_t> count{0};
    Timeline* first = nullptr;
  };
  struct Wait {
    uint64_t stream = 0;  // id; 0: none
    uint64_t position = 0;
    uint64_t at = 0;  // own position of the wait
  };
  // Streams that memory moves between are few: compute, and copies in and out.
  static constexpr size_t kWaits = 8;

  static BusyList& busy_list();
  void set_busy();
  void remember(const Wait& wait);

  const uint64_t id_;
  std::atomic<uint64_t> enqueued_{0};
  std::atomic<uint64_t> done_{0};
  std::atomic<bool> busy_{false};
  Timeline* previous_ = nullptr;  // of the busy ones, guarded by the list's mutex
  Timeline* next_ = nullptr;

  std::mutex mutex_;  // guards what follows
  Stream* stream_;
  std::array<Wait, kWaits> waits_;
};

}  // namespace keel

#endif  // KEEL_CORE_TIMELINE_H_
