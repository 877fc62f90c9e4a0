// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/runtime/stream.h"

#include <keel/plugin_kit.hpp>
#include <keel/thread_start.hpp>

#include "backends/cpu/runtime/device.h"
#include "backends/cpu/runtime/thread_pool.h"

namespace keel::cpu {

Stream::Stream(Device& device)
    : device_(device),
      thread_(kit::start_thread<std::thread>("keel-cpu-stream", [this] { run(); })) {}

Stream::~Stream() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  pushed_.notify_one();
  thread_.join();
}

void Stream::record(Event& event) {
  std::unique_lock lock(mutex_);
  // Completes the event on the caller's thread: waking an idle stream thread costs a second pair of
  // context switches for each piece of work shorter than the time to its record.
  if (queue_.empty()) {
    event.complete_at_once(status_);
    return;
  }
  Task& task = queue_.push();
  event.arm();
  task.kind = Task::Kind::kSignal;
  task.event = &event;
  wake(lock);
}

void Stream::wait_for(Event& event) {
  if (event.query() != KEEL_NOT_READY) return;
  std::unique_lock lock(mutex_);
  Task& task = queue_.push();
  task.kind = Task::Kind::kWait;
  task.event = &event;
  wake(lock);
}

// Runs |work| on the calling thread, which holds the mutex of the idle stream: a second thread that
// queries the stream waits for the work, as short as a critical section. Returns false, and has
// done nothing, if the device has no free core.
bool Stream::run_here(keel_status (*call)(const void* work, ThreadPool& pool), const void* work) {
  if (status_ != KEEL_OK) return true;  // dropped
  ThreadPool& pool = device_.pool();
  const ThreadPool::Core core(pool, std::try_to_lock);
  if (!core.is_held()) return false;
  const FloatModeScope scope(float_mode_);
  status_ = kit::guard([&] { return call(work, pool); });
  return true;
}

// Notifies after unlocking, so that the woken thread does not block on the mutex.
void Stream::wake(std::unique_lock<std::mutex>& lock) {
  const bool parked = parked_;
  parked_ = false;
  lock.unlock();
  if (parked) pushed_.notify_one();
}

keel_status Stream::state() const {
  if (status_ != KEEL_OK) return status_;
  return queue_.empty() ? KEEL_OK : KEEL_NOT_READY;
}

keel_status Stream::query() {
  const std::lock_guard lock(mutex_);
  return state();
}

keel_status Stream::synchronize(Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  ++drain_waiters_;
  drained_.wait_until(lock, deadline, [this] { return queue_.empty(); });
  --drain_waiters_;
  if (!queue_.empty()) return KEEL_TIMED_OUT;
  return status_;
}

void Stream::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    while (queue_.empty()) {
      if (drain_waiters_ > 0) drained_.notify_all();
      if (stopping_) return;
      parked_ = true;
      pushed_.wait(lock);
    }
    parked_ = false;
    Task& task = queue_.front();
    const keel_status status = status_;
    switch (task.kind) {
      case Task::Kind::kWork: {
        keel_status result = status;
        if (status == KEEL_OK) {
          lock.unlock();
          {
            const ThreadPool::Core core(device_.pool());
            result = kit::guard([&] { return task.call(task.closure, device_.pool()); });
          }
          lock.lock();
        }
        status_ = result;
        queue_.pop();
        break;
      }
      case Task::Kind::kWait: {
        Event* const event = task.event;
        if (status == KEEL_OK) {
          lock.unlock();
          // The event's own stream reports its failure, and core propagates the failure through the
          // event; this stream only needs the completion.
          event->wait(Clock::time_point::max());
          lock.lock();
        }
        queue_.pop();
        break;
      }
      // One step under the mutex: the event is complete if and only if the stream is.
      case Task::Kind::kSignal: {
        task.event->complete(status, &wakeups_);
        queue_.pop();
        if (!wakeups_.empty()) {
          lock.unlock();
          wakeups_.deliver(status);
          lock.lock();
        }
        break;
      }
    }
  }
}

}  // namespace keel::cpu
