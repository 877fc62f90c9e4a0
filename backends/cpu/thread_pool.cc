#include "backends/cpu/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>

namespace keel::cpu {
namespace {

// Cores that the budgets of all open devices add up to.
std::atomic<int> g_budgets{0};

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Looks out for |seen| before the caller parks, for about twice what to be woken costs where a core
// that idles is given back to a hypervisor: with less, one of two threads that share short pieces
// parks while the other is being woken, again and again. Products of 128 x 128 are 2.1 times as
// fast as with 5 us. After those it offers the core to whoever else has work. Not where threads
// outnumber cores, since it would hold up the one it waits for.
template <typename Seen>
bool look_out(const Seen& seen) {
  constexpr std::chrono::microseconds kAlone(5);
  constexpr std::chrono::microseconds kOffering(100);
  static const int cores = static_cast<int>(std::thread::hardware_concurrency());
  if (g_budgets.load(std::memory_order_relaxed) > cores) return seen();
  const auto begin = std::chrono::steady_clock::now();
  for (auto now = begin; now < begin + kOffering; now = std::chrono::steady_clock::now()) {
    if (now > begin + kAlone) sched_yield();
    for (int i = 0; i < 8; ++i) {
      if (seen()) return true;
      pause();
    }
  }
  return false;
}

}  // namespace

ThreadPool::ThreadPool(int cores) : cores_(cores), free_cores_(cores) {
  g_budgets += cores;
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
  g_budgets -= cores_;
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
      // Those who look out need no call.
      for (int i = 0; i < std::min(job.wanted, parked_); ++i) job_posted_.notify_one();
    }
  }
  job.work();

  {
    const std::lock_guard lock(mutex_);
    if (job.wanted > 0) {  // helpers that woke too late to find work
      unlist(job);
      free_cores_ += job.wanted;
      if (waiting_ > 0) core_free_.notify_all();
    }
  }
  // The last a helper does to the job is to count itself out.
  const auto done = [&job] { return job.active.load(std::memory_order_acquire) == 0; };
  if (look_out(done)) return;
  std::unique_lock lock(mutex_);
  job_done_.wait(lock, done);
}

void ThreadPool::unlist(Job& job) {
  if (jobs_ == &job) {
    jobs_ = job.following;
    return;
  }
  Job* before = jobs_;
  while (before->following != &job) before = before->following;
  before->following = job.following;
}

void ThreadPool::help() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (jobs_ == nullptr && !stopping_) {
      lock.unlock();
      look_out([this] { return jobs_.load(std::memory_order_relaxed) != nullptr; });
      lock.lock();
    }
    ++parked_;
    job_posted_.wait(lock, [this] { return jobs_ != nullptr || stopping_; });
    --parked_;
    if (jobs_ == nullptr) return;
    Job& job = *jobs_;
    job.active.fetch_add(1, std::memory_order_relaxed);
    if (--job.wanted == 0) unlist(job);
    lock.unlock();
    job.work();
    lock.lock();
    ++free_cores_;
    if (waiting_ > 0) core_free_.notify_one();
    if (job.active.fetch_sub(1, std::memory_order_acq_rel) == 1) job_done_.notify_all();
  }
}

}  // namespace keel::cpu
