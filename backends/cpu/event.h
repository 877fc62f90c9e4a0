// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_CPU_EVENT_H_
#define KEEL_BACKENDS_CPU_EVENT_H_

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

// |timeout_ns| from now; the end of time where the sum does not fit.
Clock::time_point deadline_after(int64_t timeout_ns);

// Where threads that wait for events sleep. It belongs to the device and outlives
// its events, so that a waiter may destroy an event while the thread that
// completed it is still about to notify.
class ParkingLot {
 public:
  struct Place {
    std::mutex mutex;
    std::condition_variable changed;
    int waiters = 0;
  };

  // Places are shared by the events dealt to them, which costs a spurious wake-up
  // at worst.
  Place& next() { return places_[dealt_.fetch_add(1, std::memory_order_relaxed) % places_.size()]; }

 private:
  std::array<Place, 16> places_;
  std::atomic<uint32_t> dealt_{0};
};

struct Callback {
  keel_notify_fn function;
  void* user;
};

// What the completion of an event sets off. Reused from one to the next, so that
// its room is allocated once.
class Wakeups {
 public:
  bool empty() const { return sleepers_ == nullptr && callbacks_.empty(); }
  // Wakes and calls them, and is empty again. With no lock held.
  void deliver(keel_status status);

 private:
  friend class Event;
  ParkingLot::Place* sleepers_ = nullptr;
  std::vector<Callback> callbacks_;
};

// A point in a stream. query, wait and notify may run beside complete and each other.
// Analogue: cudaEvent_t.
class Event {
 public:
  Event(ParkingLot& lot, bool timing) : place_(lot.next()), timing_(timing) {}
  // Waits until the completing thread has let go of the event.
  ~Event() { const std::lock_guard lock(place_.mutex); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  // Before a record is enqueued: not done from now on.
  void arm() { state_.store(KEEL_NOT_READY, std::memory_order_relaxed); }
  // Instead of both, where all before the record is done already: nobody can wait for
  // the new record yet, so that there is nobody to wake.
  void complete_at_once(keel_status status) {
    if (timing_) completed_at_ = Clock::now();
    state_.store(status, std::memory_order_release);
  }
  // By the stream's thread when it gets there; |status| is the stream's. What is
  // then to be notified goes to |out_wakeups|, since that takes calls that no lock
  // may be held over. The event may be destroyed by a waiter from now on.
  void complete(keel_status status, Wakeups* out_wakeups);

  // KEEL_NOT_READY, KEEL_OK or the failure of the stream before the record.
  keel_status query() const { return state_.load(std::memory_order_acquire); }
  // Blocks; KEEL_TIMED_OUT at |deadline|.
  keel_status wait(Clock::time_point deadline);
  // Calls |callback| once when done, on this thread if that is already so.
  void notify(const Callback& callback);

  bool timing() const { return timing_; }
  // When it was completed; for timing events that are done.
  Clock::time_point completed_at() const { return completed_at_; }

 private:
  ParkingLot::Place& place_;
  const bool timing_;
  std::atomic<keel_status> state_{KEEL_OK};
  std::vector<Callback> callbacks_;  // guarded by place_.mutex
  Clock::time_point completed_at_;
};

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_EVENT_H_
