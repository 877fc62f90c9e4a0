// SPDX-License-Identifier: Apache-2.0
// Ranks of peers that bring no launcher: threads of this process, or processes forked off it.
#ifndef KEEL_BENCH_PEERS_RANKS_H_
#define KEEL_BENCH_PEERS_RANKS_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

namespace keel::bench::peers {

// A text that one rank gives to the others, in memory that all of them see, forked or not.
class Blackboard {
 public:
  Blackboard();
  ~Blackboard();
  Blackboard(const Blackboard&) = delete;
  Blackboard& operator=(const Blackboard&) = delete;

  // Once; shorter than 256 bytes.
  void write(const std::string& text);
  // Waits for it; throws after |seconds|.
  std::string read(uint32_t seconds) const;

 private:
  struct Page {
    std::atomic<uint32_t> written;
    char text[256];
  };
  Page* page_;
};

// Those that this process may run on, whatever it has taken of them.
uint32_t usable_cores();
// Binds the calling thread, and those that it starts from now on, to its even share of them. All
// peers' ranks do: where Linux leaves more threads than cores differs from launch to launch.
void take_cores(uint32_t rank, uint32_t ranks);

using RankFunction = std::function<void(uint32_t rank)>;

// Runs |function| once a rank, on cores of its own. What one of them throws is told on standard
// error; then, and when a forked one dies, all of them end. The exit code of the process.
int run_in_threads(uint32_t ranks, const RankFunction& function);
int run_in_processes(uint32_t ranks, const RankFunction& function);

}  // namespace keel::bench::peers

#endif  // KEEL_BENCH_PEERS_RANKS_H_
