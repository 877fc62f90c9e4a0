// SPDX-License-Identifier: Apache-2.0
// Ranks of a process, one per device, sum float32: the workload of the all_reduce figures.
#ifndef KEEL_BENCH_REDUCING_RANKS_H_
#define KEEL_BENCH_REDUCING_RANKS_H_

#include <cstdint>
#include <keel/keel.hpp>
#include <span>
#include <string>
#include <vector>

namespace keel::bench {

// Rank r sends |count| times the value r + 1. Used by one thread; failures throw.
class ReducingRanks {
 public:
  ReducingRanks(std::span<const Device> devices, uint64_t count,
                const keel_comm_options* options = nullptr);

  // Runs an all_reduce; returns when every rank is done.
  void run();
  // keel_comm_explain of rank 0.
  std::string explain() const { return comms_.front().explain(); }
  // Throws if any rank holds a wrong sum: a figure of a wrong result is invalid.
  void check_sums();

 private:
  struct Rank {
    Rank(Device device, uint64_t count, float value);
    Stream stream;
    Buffer send;
    Buffer receive;
  };

  const uint64_t count_;
  float sum_ = 0;
  std::vector<Communicator> comms_;
  std::vector<Rank> ranks_;
};

}  // namespace keel::bench

#endif  // KEEL_BENCH_REDUCING_RANKS_H_
