// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/runtime/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <keel/cpu_limit.hpp>
#include <keel/thread_start.hpp>
#include <new>

namespace keel::cpu {
namespace {

// Sum of the core budgets of all open devices.
std::atomic<int> g_budgets{0};

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Spins until |seen| before the caller parks, for about twice the cost of a wake-up on a machine
// that returns idle cores to a hypervisor. With a shorter spin, one of two threads that share short
// pieces parks while the other is being woken, again and again: products of 128 x 128 are 2.1 times
// as fast as with 5 us. After the first 5 us the thread offers its core to other threads. Does not
// spin if threads outnumber cores, since spinning would delay the thread that the caller waits for.
template <typename Seen>
bool look_out(const Seen& seen) {
  constexpr std::chrono::microseconds kAlone(5);
  constexpr std::chrono::microseconds kOffering(100);
  static const int cores = static_cast<int>(usable_cores());
  if (seen()) return true;
  if (g_budgets.load(std::memory_order_relaxed) > cores) return false;
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

uint32_t usable_cores() {
  return CpuLimit::of().whole_cores(std::max(1u, std::thread::hardware_concurrency()));
}

ThreadPool::Job ThreadPool::taken_;

ThreadPool::ThreadPool(int cores) : cores_(cores), free_cores_(cores) {
  g_budgets += cores;
  helpers_.reserve(static_cast<size_t>(cores - 1));
  for (int i = 1; i < cores; ++i) helpers_.push_back(std::make_unique<Helper>());
  try {
    for (const auto& helper : helpers_) {
      helper->thread = kit::start_thread<std::thread>("keel-cpu-helper",
                                                      [this, self = helper.get()] { help(*self); });
    }
  } catch (const std::bad_alloc&) {
    stop();  // the helpers that run use this object
    throw;
  }
}

ThreadPool::~ThreadPool() {
  stop();
}

void ThreadPool::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  for (const auto& helper : helpers_) helper->posted.notify_one();
  for (const auto& helper : helpers_) {
    if (helper->thread.joinable()) helper->thread.join();
  }
  g_budgets -= cores_;
}

// ---- the budget --------------------------------------------------------------

void ThreadPool::acquire() {
  if (take_spare(1) == 1) return;
  std::unique_lock lock(mutex_);
  ++waiting_;
  core_free_.wait(lock, [this] { return take_spare(1) == 1; });
  --waiting_;
}

void ThreadPool::release(int cores) {
  free_cores_ += cores;
  if (waiting_ == 0) return;
  const std::lock_guard lock(mutex_);
  core_free_.notify_all();
}

// Takes at most |most| of the free cores; returns the number taken.
int ThreadPool::take_spare(int most) {
  int free = free_cores_.load();
  while (free > 0) {
    const int taken = std::min(free, most);
    if (free_cores_.compare_exchange_weak(free, free - taken)) return taken;
  }
  return 0;
}

// ---- jobs --------------------------------------------------------------------

void ThreadPool::Job::work() {
  while (next.load(std::memory_order_relaxed) < count) {
    const int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
    if (begin >= count) return;
    call(body, begin, std::min(begin + grain, count));
  }
}

void ThreadPool::run(Job& job) {
  const int64_t pieces = (job.count + job.grain - 1) / job.grain;
  // Threads that wait for a core for their own work take precedence.
  const int most = static_cast<int>(std::min<int64_t>(pieces - 1, cores_));
  const int spare = waiting_ > 0 ? 0 : take_spare(most);
  size_t end = 0;
  const int posted = spare > 0 ? post(job, spare, &end) : 0;
  if (posted < spare) release(spare - posted);
  job.work();
  if (posted == 0) return;
  if (job.helped.load(std::memory_order_acquire) < posted) {
    wait(job, posted - take_back(job, end));
  }
  // Released here rather than by the helpers, which would have to fetch the cache line of the
  // budget from this core.
  release(posted);
}

bool ThreadPool::is_worth_waking(const Job& job) {
  constexpr uint32_t kOneOf = 32;
  return job.pieces == Pieces::kLong ||
         not_woken_.fetch_add(1, std::memory_order_relaxed) % kOneOf == kOneOf - 1;
}

// Posts the job to |wanted| helpers, or to as many as are free and awake or worth waking. Returns
// their number and the end of their range in the list.
int ThreadPool::post(Job& job, int wanted, size_t* out_end) {
  int posted = 0;
  for (size_t i = 0; i < helpers_.size() && posted < wanted; ++i) {
    Helper& helper = *helpers_[i];
    if (helper.is_parked && !is_worth_waking(job)) continue;
    Job* expected = nullptr;
    if (!helper.job.compare_exchange_strong(expected, &job)) continue;
    ++posted;
    *out_end = i + 1;
    // Spinning helpers need no notification.
    if (!helper.is_parked) continue;
    const std::lock_guard lock(mutex_);
    helper.posted.notify_one();
  }
  return posted;
}

// Takes the job back from helpers that have not taken it yet; returns their number.
int ThreadPool::take_back(Job& job, size_t end) {
  int taken = 0;
  for (size_t i = 0; i < end; ++i) {
    Job* expected = &job;
    if (helpers_[i]->job.compare_exchange_strong(expected, nullptr)) ++taken;
  }
  return taken;
}

void ThreadPool::wait(Job& job, int helpers) {
  const auto is_done = [&] { return job.helped == helpers; };
  if (look_out(is_done)) return;
  std::unique_lock lock(mutex_);
  ++waiting_for_job_;
  job_done_.wait(lock, is_done);
  --waiting_for_job_;
}

void ThreadPool::help(Helper& self) {
  const auto is_called = [&] { return self.job != nullptr || stopping_; };
  for (;;) {
    if (!look_out(is_called)) {
      std::unique_lock lock(mutex_);
      self.is_parked = true;
      // Waits once: a helper that comes too late for a job spins for the next one, for which
      // parking would make it late again.
      if (!is_called()) self.posted.wait(lock);
      self.is_parked = false;
    }
    Job* job = self.job;
    if (job == nullptr && stopping_) return;
    // Fetches the job's cache lines from the other core meanwhile.
    __builtin_prefetch(job);
    if (job != nullptr) __builtin_prefetch(&job->next, /*for writing*/ 1);
    if (job == nullptr || !self.job.compare_exchange_strong(job, &taken_)) continue;
    job->work();
    // In this order: a thread that has waited for this job finds its helpers free for the next job.
    self.job.store(nullptr, std::memory_order_release);
    job->helped.fetch_add(1);
    if (waiting_for_job_ == 0) continue;
    const std::lock_guard lock(mutex_);
    job_done_.notify_all();
  }
}

}  // namespace keel::cpu
