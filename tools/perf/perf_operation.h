// SPDX-License-Identifier: Apache-2.0
// The collectives that `keel perf` times, with their traffic and bandwidth.
#ifndef KEEL_TOOLS_PERF_PERF_OPERATION_H_
#define KEEL_TOOLS_PERF_PERF_OPERATION_H_

#include <keel/keel.h>

#include <cstdint>
#include <string>
#include <vector>

namespace keel::cli {

// Arguments of one rank's call.
struct PerfCall {
  keel_comm comm{};
  keel_stream stream{};
  const void* send = nullptr;
  void* receive = nullptr;
  uint64_t count = 0;
  keel_dtype dtype = KEEL_FLOAT32;
  keel_reduction reduction = KEEL_SUM;
  uint32_t root = 0;
  uint32_t rank = 0;
  uint32_t world = 1;
};

// Element counts of one rank.
struct PerfCounts {
  uint64_t count = 0;  // the call's count argument
  uint64_t send = 0;
  uint64_t receive = 0;
  // In place, the smaller buffer starts at element |offset| * rank of the larger one.
  uint64_t send_offset = 0;
  uint64_t receive_offset = 0;
};

// The origin of a run of elements in a rank's result.
struct PerfSource {
  bool reduced = false;  // reduced over all ranks, at |index|
  uint32_t rank = 0;     // otherwise copied from this rank
  uint64_t index = 0;    // in its send buffer
  uint64_t length = 0;   // number of elements with this origin
};

struct PerfOperation {
  enum class Shape { kAll, kReduceScatter, kGather, kExchange, kScatter, kShift, kNothing };

  const char* name;
  Shape shape;
  bool reduces;
  bool rooted;
  bool to_all;    // all ranks have a result; otherwise only the root
  bool in_place;  // can run in place
  // Bus bandwidth divided by algorithm bandwidth: 2(n-1)/n and so on.
  double (*bus_factor)(double world);
  keel_status (*call)(const PerfCall& call);

  // Counts for |bytes| in the larger of the two buffers, as in nccl-tests. If each rank has a part
  // of the bytes, the part is rounded down to a multiple of 16 bytes, so the total may be smaller,
  // or zero.
  PerfCounts counts(uint64_t bytes, uint64_t element_bytes, uint32_t world) const;
  bool has_result(uint32_t rank, uint32_t root) const { return to_all || rank == root; }
  // |at| < counts.receive.
  PerfSource source(const PerfCounts& counts, uint64_t at, uint32_t rank, uint32_t world,
                    uint32_t root) const;
  // Returns GB/s; 0 for a barrier and for a time of 0.
  double algorithm_bandwidth(const PerfCounts& counts, uint64_t element_bytes,
                             double seconds) const;
};

const PerfOperation* find_perf_operation(const std::string& name);  // NULL for an unknown name
std::vector<std::string> perf_operation_names();

}  // namespace keel::cli

#endif  // KEEL_TOOLS_PERF_PERF_OPERATION_H_
