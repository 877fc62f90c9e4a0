// SPDX-License-Identifier: Apache-2.0
// Starts processes with ranks of a shared communicator, for effects that only many processes show.
#ifndef KEEL_BENCH_RANK_PROCESSES_H_
#define KEEL_BENCH_RANK_PROCESSES_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/ipc/process.h"

namespace keel::bench {

// When a process reached each milestone, by CLOCK_MONOTONIC.
struct RankMilestones {
  int64_t running_ns = 0;    // main() entered
  int64_t up_ns = 0;         // keel_init returned
  int64_t joined_ns = 0;     // all its ranks have a communicator
  int64_t all_there_ns = 0;  // all its ranks finished the first barrier
};

// The ranks' work after their first barrier.
enum class AfterBarrier : uint32_t {
  kNothing,
  kWaitForLast,  // ranks except the last process's wait in a barrier that process never joins
};

// Ranks on the CPU backend, a rank per thread. The calling process creates the unique id, so Keel
// must be initialized there. Used by one thread.
class RankProcesses {
 public:
  RankProcesses(uint32_t processes, uint32_t threads, AfterBarrier then = AfterBarrier::kNothing);
  // Closes the processes' input, so the processes end, and kills processes still running after 20
  // s.
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  int64_t last_spawn_ns() const { return last_spawn_ns_; }
  // Waits until all processes finished the barrier; throws after |deadline|, or if a process ends
  // early.
  std::vector<RankMilestones> wait_for_all(std::chrono::milliseconds deadline);
  // Kills the last process, for which all remaining processes wait. Returns the time by
  // CLOCK_MONOTONIC.
  int64_t kill_last();
  // Returns when the ranks of all remaining processes had received KEEL_RANK_FAILED, by
  // CLOCK_MONOTONIC. Throws after |deadline|, or if a rank received a different status.
  int64_t wait_for_failure(std::chrono::milliseconds deadline);
  // Returns the CPU seconds used so far by all processes together.
  double cpu_seconds() const;

 private:
  struct Child {
    Process process;
    std::string text;  // output not yet consumed
  };

  std::string line_of(Child& child, std::chrono::steady_clock::time_point end) const;

  std::vector<Child> children_;
  FileDescriptor input_;  // the processes' input; closing it ends them
  int64_t last_spawn_ns_ = 0;
};

// Body of keel_bench --repeat |what|: runs a rank process. Returns false for an unknown |what|.
bool be_rank_process(const std::string& what);

}  // namespace keel::bench

#endif  // KEEL_BENCH_RANK_PROCESSES_H_
