// SPDX-License-Identifier: Apache-2.0
// Starts ranks of peers without a launcher: threads of this process, or forked processes.
#ifndef KEEL_BENCH_PEERS_RANKS_H_
#define KEEL_BENCH_PEERS_RANKS_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

namespace keel::bench::peers {

// A text passed from a rank to all remaining ranks in shared memory, forked or not.
class Blackboard {
 public:
  Blackboard();
  ~Blackboard();
  Blackboard(const Blackboard&) = delete;
  Blackboard& operator=(const Blackboard&) = delete;

  // Called once; |text| is shorter than 256 bytes.
  void write(const std::string& text);
  // Blocks until the text is written; throws after |seconds|.
  std::string read(uint32_t seconds) const;

 private:
  struct Page {
    std::atomic<uint32_t> written;
    char text[256];
  };
  Page* page_;
};

// Number of cores that this process was allowed to use before take_cores().
uint32_t usable_cores();
// Binds the calling thread, and threads started from it later, to the thread's even share of the
// cores. Ranks of all peers do so: where Linux leaves more threads than cores differs from launch
// to launch.
void take_cores(uint32_t rank, uint32_t ranks);

struct LaunchedRank {
  uint32_t rank;
  uint32_t ranks;
};
// Returns what `keel run` has given this process, bound to its cores; throws if it gave nothing.
LaunchedRank launched_rank();

using RankFunction = std::function<void(uint32_t rank)>;

// Runs |function| once per rank, each rank on its own cores. An exception is printed on standard
// error and ends all ranks; so does the death of a forked rank. Returns the exit code of the
// process.
int run_in_threads(uint32_t ranks, const RankFunction& function);
int run_in_processes(uint32_t ranks, const RankFunction& function);

}  // namespace keel::bench::peers

#endif  // KEEL_BENCH_PEERS_RANKS_H_
