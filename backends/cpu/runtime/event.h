// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_CPU_RUNTIME_EVENT_H_
#define KEEL_BACKENDS_CPU_RUNTIME_EVENT_H_

#include <keel/abi.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

namespace keel::cpu {

using Clock = std::chrono::steady_clock;

// Now plus |timeout_ns|; Clock::time_point::max() if the sum overflows.
Clock::time_point deadline_after(int64_t timeout_ns);

// The places where threads sleep that wait for events. The device owns the parking lot, which
// outlives the events: a waiter may destroy an event while the completing thread is still about to
// notify.
class ParkingLot {
 public:
  struct Slot {
    std::mutex mutex;
    std::condition_variable changed;
    int waiters = 0;
  };

  // Events share the 16 places round-robin. The cost of sharing is at most a spurious wake-up.
  Slot& next() { return places_[dealt_.fetch_add(1, std::memory_order_relaxed) % places_.size()]; }

 private:
  std::array<Slot, 16> places_;
  std::atomic<uint32_t> dealt_{0};
};

struct Callback {
  keel_notify_fn function;
  void* user;
};

// The threads to wake and the callbacks to call after an event completes. A stream reuses one
// object, so that its memory is allocated once.
class Wakeups {
 public:
  bool empty() const { return sleepers_ == nullptr && callbacks_.empty(); }
  // Wakes the sleepers, calls the callbacks and leaves the object empty. Call with no lock held.
  void deliver(keel_status status);

 private:
  friend class Event;
  ParkingLot::Slot* sleepers_ = nullptr;
  std::vector<Callback> callbacks_;
};

// A point in a stream. query, wait and notify may run concurrently with complete and with each
// other. Analogue: cudaEvent_t.
class Event {
 public:
  Event(ParkingLot& lot, bool timing) : place_(lot.next()), timing_(timing) {}
  // Blocks until the completing thread has released the event.
  ~Event() { const std::lock_guard lock(place_.mutex); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  // Marks the event as not ready. Call before the record is enqueued.
  void arm() { state_.store(KEEL_NOT_READY, std::memory_order_relaxed); }
  // Replaces arm and complete when all work before the record is already done. No thread can wait
  // for the new record yet, so no thread is woken.
  void complete_at_once(keel_status status) {
    if (timing_) completed_at_ = Clock::now();
    state_.store(status, std::memory_order_release);
  }
  // Called by the stream's thread when it reaches the record, with the stream's |status|. Moves
  // sleepers and callbacks to |out_wakeups| for delivery without a lock held. From this call on, a
  // waiter may destroy the event.
  void complete(keel_status status, Wakeups* out_wakeups);

  // KEEL_NOT_READY, KEEL_OK or the failure of the stream before the record.
  keel_status query() const { return state_.load(std::memory_order_acquire); }
  // Blocks until the event completes; returns KEEL_TIMED_OUT at |deadline|.
  keel_status wait(Clock::time_point deadline);
  // Calls |callback| once on completion, or on the calling thread if the event is already complete.
  void notify(const Callback& callback);

  bool timing() const { return timing_; }
  // Time of completion. Only for completed events with timing.
  Clock::time_point completed_at() const { return completed_at_; }

 private:
  ParkingLot::Slot& place_;
  const bool timing_;
  std::atomic<keel_status> state_{KEEL_OK};
  std::vector<Callback> callbacks_;  // guarded by place_.mutex
  Clock::time_point completed_at_;
};

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_RUNTIME_EVENT_H_
