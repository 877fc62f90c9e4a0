// SPDX-License-Identifier: Apache-2.0
// Ranks of one process, one a device, that sum up float32: what figures of all_reduce run.
#ifndef KEEL_BENCH_SUMMING_RANKS_H_
#define KEEL_BENCH_SUMMING_RANKS_H_

#include <cstdint>
#include <keel/keel.hpp>
#include <span>
#include <string>
#include <vector>

namespace keel::bench {

// Rank r holds |count| times r + 1. Used by one thread; failures are thrown.
class SummingRanks {
 public:
  SummingRanks(std::span<const Device> devices, uint64_t count,
               const keel_comm_options* options = nullptr);

  // One all_reduce; returns when it is done on every rank.
  void run();
  // keel_comm_explain of rank 0.
  std::string explain() const { return comms_.front().explain(); }
  // A figure of a wrong sum is none: throws where a rank holds one.
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

#endif  // KEEL_BENCH_SUMMING_RANKS_H_
