// SPDX-License-Identifier: Apache-2.0
// A thread sleeping on a condition variable until a task arrives: the smallest hand-off between
// threads without spinning.
#ifndef KEEL_BENCH_WORKER_H_
#define KEEL_BENCH_WORKER_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace keel::bench {

// Used by one thread.
class Worker {
 public:
  Worker();
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // |task| stays valid until wait() returns, and must not throw.
  void start(const std::function<void()>& task);
  void wait();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* task_ = nullptr;  // null once it has run
  bool stopping_ = false;
  std::thread thread_;  // last: the thread uses the rest
};

}  // namespace keel::bench

#endif  // KEEL_BENCH_WORKER_H_
