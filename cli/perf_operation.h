// SPDX-License-Identifier: Apache-2.0
// What `keel perf` times: the collectives, how much each moves, and how fast that is.
#ifndef KEEL_CLI_PERF_OPERATION_H_
#define KEEL_CLI_PERF_OPERATION_H_

#include <keel/keel.h>

#include <cstdint>
#include <string>
#include <vector>

namespace keel::cli {

// What one rank's call is given.
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

// Elements, of a rank.
struct PerfCounts {
  uint64_t count = 0;  // as the call takes it
  uint64_t send = 0;
  uint64_t receive = 0;
  // In place, the smaller of the two lies this much * rank into the other.
  uint64_t send_offset = 0;
  uint64_t receive_offset = 0;
};

// Where the elements of a rank's result come from, from one index on.
struct PerfSource {
  bool reduced = false;  // from all ranks, at |index|
  uint32_t rank = 0;     // otherwise from this one
  uint64_t index = 0;    // in its send buffer
  uint64_t length = 0;   // elements for which this holds
};

struct PerfOperation {
  enum class Shape { kAll, kReduceScatter, kGather, kExchange, kScatter, kShift, kNothing };

  const char* name;
  Shape shape;
  bool reduces;
  bool rooted;
  bool to_all;    // all ranks have a result; otherwise the root alone
  bool in_place;  // can be
  // Bytes on the bus for each byte of the algorithm's: 2(n-1)/n and so on.
  double (*bus_factor)(double world);
  keel_status (*call)(const PerfCall& call);

  // For |bytes| in the larger of the two buffers, as nccl-tests counts: where each rank has a part
  // of them, that is a multiple of 16 bytes, and there may be fewer in all, or none.
  PerfCounts counts(uint64_t bytes, uint64_t element_bytes, uint32_t world) const;
  bool has_result(uint32_t rank, uint32_t root) const { return to_all || rank == root; }
  // |at| < counts.receive.
  PerfSource source(const PerfCounts& counts, uint64_t at, uint32_t rank, uint32_t world,
                    uint32_t root) const;
  // GB/s. 0 for a barrier, and for times of 0.
  double algorithm_bandwidth(const PerfCounts& counts, uint64_t element_bytes,
                             double seconds) const;
};

const PerfOperation* find_perf_operation(const std::string& name);  // NULL: there is none
std::vector<std::string> perf_operation_names();

}  // namespace keel::cli

#endif  // KEEL_CLI_PERF_OPERATION_H_
