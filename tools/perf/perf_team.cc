// SPDX-License-Identifier: Apache-2.0
#include "tools/perf/perf_team.h"

#include <algorithm>
#include <chrono>

namespace keel::cli {

void PerfTeam::meet(const std::function<void()>& last) {
  std::unique_lock lock(mutex_);
  if (aborted_) throw PerfAborted();
  const uint64_t round = round_;
  if (++waiting_ == threads_) {
    lock.unlock();
    try {
      if (last) last();
    } catch (...) {
      abort();
      throw;
    }
    lock.lock();
    waiting_ = 0;
    ++round_;
    changed_.notify_all();
    return;
  }
  const bool came =
      changed_.wait_for(lock, std::chrono::hours(1), [&] { return aborted_ || round_ != round; });
  if (!came) throw std::runtime_error("a thread did not come within an hour");
  if (round_ == round) throw PerfAborted();
}

double PerfTeam::max(double value, const std::function<double(double)>& others) {
  {
    const std::lock_guard lock(mutex_);
    max_ = std::max(max_, value);
  }
  meet([&] {
    max_result_ = others(max_);
    max_ = 0;
  });
  return max_result_;
}

uint64_t PerfTeam::sum(uint64_t value, const std::function<uint64_t(uint64_t)>& others) {
  {
    const std::lock_guard lock(mutex_);
    sum_ += value;
  }
  meet([&] {
    sum_result_ = others(sum_);
    sum_ = 0;
  });
  return sum_result_;
}

void PerfTeam::abort() {
  const std::lock_guard lock(mutex_);
  aborted_ = true;
  changed_.notify_all();
}

}  // namespace keel::cli
