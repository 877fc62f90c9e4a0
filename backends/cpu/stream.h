// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_CPU_STREAM_H_
#define KEEL_BACKENDS_CPU_STREAM_H_

#include <keel/abi.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "backends/cpu/event.h"
#include "backends/cpu/task_queue.h"

namespace keel::cpu {

class Device;

// An in-order queue with a thread of its own, parked while there is nothing to
// do. Since no two streams share a thread, one that waits for an event holds up
// nothing but itself. One thread at a time enqueues; any may query or wait.
//
// Failure is sticky: once work has failed, later work is dropped, and events,
// query and synchronize report that failure.
class Stream {
 public:
  explicit Stream(Device& device);
  // Runs what is queued, then joins the thread.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Device& device() const { return device_; }

  // |work|: a callable keel_status(ThreadPool&) of plain values, at most
  // Task::kInlineBytes of them. Runs with one core of the device in hand.
  template <typename Work>
  void enqueue(const Work& work) {
    std::unique_lock lock(mutex_);
    queue_.push().set_work(work);
    wake(lock);
  }
  void record(Event& event);
  void wait_for(Event& event);

  keel_status query();
  keel_status synchronize(Clock::time_point deadline);

 private:
  void run();
  void wake(std::unique_lock<std::mutex>& lock);
  keel_status state() const;

  Device& device_;
  std::mutex mutex_;
  std::condition_variable pushed_;
  std::condition_variable drained_;
  TaskQueue queue_;  // the front is at work
  keel_status status_ = KEEL_OK;
  Wakeups wakeups_;  // of the thread
  int drain_waiters_ = 0;
  bool parked_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_STREAM_H_
