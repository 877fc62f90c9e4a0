#include "backends/cpu/thread_pool.h"

#include <pthread.h>

#include <algorithm>

namespace keel::cpu {

ThreadPool::ThreadPool(int cores) : cores_(cores), free_cores_(cores) {
  helpers_.reserve(static_cast<size_t>(cores - 1));
  for (int i = 1; i < cores; ++i) {
    helpers_.emplace_back([this] { help(); });
    pthread_setname_np(helpers_.back().native_handle(), "keel-cpu-helper");
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  job_posted_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void ThreadPool::acquire() {
  std::unique_lock lock(mutex_);
  ++waiting_;
  core_free_.wait(lock, [this] { return free_cores_ > 0; });
  --waiting_;
  --free_cores_;
}

void ThreadPool::release() {
  const std::lock_guard lock(mutex_);
  ++free_cores_;
  if (waiting_ > 0) core_free_.notify_one();
}

void ThreadPool::Job::work() {
  for (;;) {
    const int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
    if (begin >= count) return;
    call(body, begin, std::min(begin + grain, count));
  }
}

void ThreadPool::run(Job& job) {
  const int64_t pieces = (job.count + job.grain - 1) / job.grain;
  {
    const std::lock_guard lock(mutex_);
    // Whoever waits for a core to begin its own work goes first.
    const int spare = waiting_ > 0 ? 0 : free_cores_;
    job.wanted = static_cast<int>(std::min<int64_t>(spare, pieces - 1));
    free_cores_ -= job.wanted;
    if (job.wanted > 0) {
      job.following = jobs_;
      jobs_ = &job;
      for (int i = 0; i < job.wanted; ++i) job_posted_.notify_one();
    }
  }
  job.work();

  std::unique_lock lock(mutex_);
  if (job.wanted > 0) {  // helpers that woke too late to find work
    unlist(job);
    free_cores_ += job.wanted;
    if (waiting_ > 0) core_free_.notify_all();
  }
  job_done_.wait(lock, [&job] { return job.active == 0; });
}

void ThreadPool::unlist(Job& job) {
  Job** link = &jobs_;
  while (*link != &job) link = &(*link)->following;
  *link = job.following;
}

void ThreadPool::help() {
  std::unique_lock lock(mutex_);
  for (;;) {
    job_posted_.wait(lock, [this] { return jobs_ != nullptr || stopping_; });
    if (jobs_ == nullptr) return;
    Job& job = *jobs_;
    ++job.active;
    if (--job.wanted == 0) unlist(job);
    lock.unlock();
    job.work();
    lock.lock();
    ++free_cores_;
    if (waiting_ > 0) core_free_.notify_one();
    if (--job.active == 0) job_done_.notify_all();
  }
}

}  // namespace keel::cpu
