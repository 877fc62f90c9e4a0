// SPDX-License-Identifier: Apache-2.0
// The five operations that Keel and its peers are compared in, and what a number of bytes
// means for each: as nccl-tests counts them, so that figures can be laid beside others'.
#ifndef KEEL_BENCH_PEERS_SHAPE_H_
#define KEEL_BENCH_PEERS_SHAPE_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace keel::bench::peers {

enum class Operation { kAllReduce, kBroadcast, kAllGather, kReduceScatter, kAllToAll };
inline constexpr Operation kOperations[] = {Operation::kAllReduce, Operation::kBroadcast,
                                            Operation::kAllGather, Operation::kReduceScatter,
                                            Operation::kAllToAll};

// "all_reduce".
const char* name_of(Operation operation);
std::optional<Operation> find_operation(std::string_view name);

// Of one rank, in elements of float32.
struct Shape {
  Operation operation;
  uint32_t world;
  uint64_t piece;    // what one rank gives to, or has from, one other; the whole where
                     // nothing is divided
  uint64_t send;     // of the buffer that is read
  uint64_t receive;  // of the buffer that is written

  // The larger of the two buffers: what nccl-tests calls size.
  uint64_t bytes() const;
};

// |bytes| is rounded to whole elements, at least one a piece: 8 bytes among 4 ranks become 16.
Shape make_shape(Operation operation, uint64_t bytes, uint32_t world);

}  // namespace keel::bench::peers

#endif  // KEEL_BENCH_PEERS_SHAPE_H_
