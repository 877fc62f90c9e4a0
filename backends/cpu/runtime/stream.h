// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_CPU_RUNTIME_STREAM_H_
#define KEEL_BACKENDS_CPU_RUNTIME_STREAM_H_

#include <keel/abi.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "backends/cpu/runtime/event.h"
#include "backends/cpu/runtime/float_mode.h"
#include "backends/cpu/runtime/task_queue.h"

namespace keel::cpu {

class Device;

// An in-order queue with its own thread, parked while the queue is empty. Streams do not share
// threads, so a stream that waits for an event blocks only itself. One thread at a time enqueues;
// any thread may query or wait. Brief work of an idle stream runs on the enqueuing thread.
//
// Failure is sticky: after work has failed, later work is dropped, and events, query and
// synchronize return that failure.
class Stream {
 public:
  explicit Stream(Device& device);
  // Runs the queued work, then joins the thread.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Device& device() const { return device_; }

  // Most nanoseconds of brief work. Waking the parked thread takes the caller 2 us and more, and
  // the work another 5 us and more until it runs.
  static constexpr int64_t kBrief = 2000;

  // |work| is a callable keel_status(ThreadPool&) of plain values, at most Task::kInlineBytes, that
  // takes about |nanoseconds| of one core. The stream's thread runs |work| while holding one core
  // of the device. Brief work runs on the calling thread instead, before the return, if the queue
  // is empty and a core is free: with the same order, failures and floating-point mode. Never
  // blocks.
  template <typename Work>
  void enqueue(const Work& work, int64_t nanoseconds = INT64_MAX) {
    std::unique_lock lock(mutex_);
    if (nanoseconds <= kBrief && queue_.empty() && run_here(&Task::call_work<Work>, &work)) return;
    queue_.push().set_work(work);
    wake(lock);
  }
  void record(Event& event);
  void wait_for(Event& event);

  keel_status query();
  keel_status synchronize(Clock::time_point deadline);

 private:
  void run();
  bool run_here(keel_status (*call)(const void* work, ThreadPool& pool), const void* work);
  void wake(std::unique_lock<std::mutex>& lock);
  keel_status state() const;

  Device& device_;
  std::mutex mutex_;
  std::condition_variable pushed_;
  std::condition_variable drained_;
  TaskQueue queue_;  // the front task is running
  keel_status status_ = KEEL_OK;
  Wakeups wakeups_;  // used by the stream's thread only
  // The thread's, which inherits the mode of the thread that creates the stream.
  const FloatMode float_mode_ = FloatMode::current();
  int drain_waiters_ = 0;
  bool parked_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_RUNTIME_STREAM_H_
