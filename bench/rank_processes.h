// SPDX-License-Identifier: Apache-2.0
// Processes with ranks of one communicator, for what only many of them show.
#ifndef KEEL_BENCH_RANK_PROCESSES_H_
#define KEEL_BENCH_RANK_PROCESSES_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace keel::bench {

// When a process had come how far, by CLOCK_MONOTONIC.
struct RankMilestones {
  int64_t running_ns = 0;    // in main()
  int64_t up_ns = 0;         // keel_init is over
  int64_t joined_ns = 0;     // all its ranks have their communicator
  int64_t all_there_ns = 0;  // and have come through their first barrier
};

// What ranks do after their first barrier.
enum class AfterBarrier : uint32_t {
  kNothing,
  kWaitForLast,  // all but those of the last process wait in a barrier to which that never comes
};

// Ranks on the CPU backend, one a thread. Keel is up in this process, which makes the unique id.
// Used by one thread.
class RankProcesses {
 public:
  RankProcesses(uint32_t processes, uint32_t threads, AfterBarrier then = AfterBarrier::kNothing);
  // Lets them end, or kills them where they do not.
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  int64_t last_spawn_ns() const { return last_spawn_ns_; }
  // Waits until all are through the barrier; throws, with what it has from them, after |deadline|.
  std::vector<RankMilestones> wait_for_all(std::chrono::milliseconds deadline);
  // Kills the last process, which the others wait for; when, by CLOCK_MONOTONIC.
  int64_t kill_last();
  // When the ranks of all other processes had been told that a rank has failed; throws where they
  // are not, or are told something else, after |deadline|.
  int64_t wait_for_failure(std::chrono::milliseconds deadline);
  // That they have used so far, all together.
  double cpu_seconds() const;

 private:
  struct Child {
    pid_t pid = 0;
    int output = -1;
    std::string text;  // that has come from it
  };

  std::string line_of(Child& child, std::chrono::steady_clock::time_point end) const;

  std::vector<Child> children_;
  int input_ = -1;  // theirs ends when this is closed
  int64_t last_spawn_ns_ = 0;
};

// keel_bench --repeat |what|: such a process. False where |what| is something else.
bool be_rank_process(const std::string& what);

}  // namespace keel::bench

#endif  // KEEL_BENCH_RANK_PROCESSES_H_
