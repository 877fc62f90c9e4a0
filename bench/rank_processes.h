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

// Ranks on the CPU backend, one a thread, that do nothing after their first barrier. Keel is up
// in this process, which makes the unique id. Used by one thread.
class RankProcesses {
 public:
  RankProcesses(uint32_t processes, uint32_t threads);
  // Lets them end, or kills them where they do not.
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  int64_t last_spawn_ns() const { return last_spawn_ns_; }
  // Waits until all are through the barrier; throws, with what it has from them, after |deadline|.
  std::vector<RankMilestones> wait_for_all(std::chrono::milliseconds deadline);
  // That they have used so far, all together.
  double cpu_seconds() const;

 private:
  struct Child {
    pid_t pid = 0;
    int output = -1;
    std::string text;  // that has come from it
  };

  std::vector<Child> children_;
  int input_ = -1;  // theirs ends when this is closed
  int64_t last_spawn_ns_ = 0;
};

// keel_bench --repeat |what|: such a process. False where |what| is something else.
bool be_rank_process(const std::string& what);

}  // namespace keel::bench

#endif  // KEEL_BENCH_RANK_PROCESSES_H_
