// SPDX-License-Identifier: Apache-2.0
// The threads of a process that time an operation together.
#ifndef KEEL_TOOLS_PERF_PERF_TEAM_H_
#define KEEL_TOOLS_PERF_PERF_TEAM_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <stdexcept>

namespace keel::cli {

// Thrown to threads that wait for a failed thread.
class PerfAborted : public std::runtime_error {
 public:
  PerfAborted() : std::runtime_error("another thread failed") {}
};

// Thread-safe. A wait ends when all threads have arrived, when a thread aborts, or after an hour;
// no thread takes an hour, since each wait for Keel has a deadline.
class PerfTeam {
 public:
  explicit PerfTeam(uint32_t threads) : threads_(threads) {}

  // Returns once all threads have arrived. The last thread to arrive first runs |last|; an
  // exception from |last| propagates in this thread, and the other threads get PerfAborted.
  void meet(const std::function<void()>& last = {});
  // Return the maximum or the sum of all threads' values, after |others| has turned this process's
  // result into the result of all processes.
  double max(double value, const std::function<double(double)>& others);
  uint64_t sum(uint64_t value, const std::function<uint64_t(uint64_t)>& others);
  // Current and later waits throw PerfAborted.
  void abort();

 private:
  const uint32_t threads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint32_t waiting_ = 0;
  uint64_t round_ = 0;
  bool aborted_ = false;
  // Values of the current rendezvous, and results of the last one.
  double max_ = 0;
  uint64_t sum_ = 0;
  double max_result_ = 0;
  uint64_t sum_result_ = 0;
};

}  // namespace keel::cli

#endif  // KEEL_TOOLS_PERF_PERF_TEAM_H_
