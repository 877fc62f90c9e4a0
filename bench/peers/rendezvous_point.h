// SPDX-License-Identifier: Apache-2.0
// A barrier for the threads of a program, as fast as memory allows.
#ifndef KEEL_BENCH_PEERS_RENDEZVOUS_POINT_H_
#define KEEL_BENCH_PEERS_RENDEZVOUS_POINT_H_

#include <atomic>
#include <cstdint>
#include <vector>

namespace keel::bench::peers {

// Each rank writes a cache line and reads its peers' lines: two ranks need a single transfer of a
// line each way. With |spin| (each rank has its own core) ranks spin for a while before yielding;
// otherwise ranks yield at once.
class RendezvousPoint {
 public:
  RendezvousPoint(uint32_t ranks, bool spin) : flags_(ranks), spin_(spin) {}

  // A rank's writes before arrival are visible to all ranks afterwards.
  void arrive_and_wait(uint32_t rank);

  // Returns the maximum of all ranks' values, with a barrier before and after the values are read.
  double largest(uint32_t rank, double value);

 private:
  struct alignas(128) Flag {  // 128: CPUs fetch neighbouring lines in pairs
    std::atomic<uint64_t> rendezvous_count = 0;
    double value = 0;
  };
  std::vector<Flag> flags_;
  const bool spin_;
};

}  // namespace keel::bench::peers

#endif  // KEEL_BENCH_PEERS_RENDEZVOUS_POINT_H_
