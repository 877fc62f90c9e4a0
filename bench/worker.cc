// SPDX-License-Identifier: Apache-2.0
#include "bench/worker.h"

namespace keel::bench {

Worker::Worker() : thread_([this] { run(); }) {}

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

// Only one side waits at a time, so one condition variable serves both directions.
void Worker::start(const std::function<void()>& task) {
  {
    const std::lock_guard lock(mutex_);
    task_ = &task;
  }
  changed_.notify_one();
}

void Worker::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return task_ == nullptr; });
}

void Worker::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return task_ != nullptr || stopping_; });
    if (stopping_) return;
    lock.unlock();
    (*task_)();
    lock.lock();
    task_ = nullptr;
    lock.unlock();
    changed_.notify_one();
    lock.lock();
  }
}

}  // namespace keel::bench
