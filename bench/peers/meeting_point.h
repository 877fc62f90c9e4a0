// SPDX-License-Identifier: Apache-2.0
// Where the threads of one program wait for one another, as fast as memory lets them.
#ifndef KEEL_BENCH_PEERS_MEETING_POINT_H_
#define KEEL_BENCH_PEERS_MEETING_POINT_H_

#include <atomic>
#include <cstdint>
#include <vector>

namespace keel::bench::peers {

// Each rank writes one cache line and reads the others': two ranks need one transfer of a
// line each way. Ranks that have a core each spin for a while first, others hand on the core at
// once.
class MeetingPoint {
 public:
  MeetingPoint(uint32_t ranks, bool spin) : flags_(ranks), spin_(spin) {}

  // What any rank wrote before it arrived, all may read afterwards.
  void arrive_and_wait(uint32_t rank);

  // What all ranks have given, by one meeting before the values are read, and one after.
  double largest(uint32_t rank, double value);

 private:
  struct alignas(128) Flag {  // 128: neighbouring lines are fetched in pairs
    std::atomic<uint64_t> meetings = 0;
    double value = 0;
  };
  std::vector<Flag> flags_;
  const bool spin_;
};

}  // namespace keel::bench::peers

#endif  // KEEL_BENCH_PEERS_MEETING_POINT_H_
