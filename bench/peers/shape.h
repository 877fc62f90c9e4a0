// SPDX-License-Identifier: Apache-2.0
// The five operations in which Keel and its peers are compared, and the meaning of a number of
// bytes for each: counted as in nccl-tests, so figures are comparable with published figures.
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

// The buffers of a rank, in elements of float32.
struct Shape {
  Operation operation;
  uint32_t world;
  uint64_t piece;    // exchanged between two ranks; everything if nothing
                     // is divided
  uint64_t send;     // in the buffer that is read
  uint64_t receive;  // in the buffer that is written

  // Returns the size of the larger buffer, nccl-tests' "size".
  uint64_t bytes() const;
};

// Rounds |bytes| to whole elements, at least an element per piece: 8 bytes among 4 ranks become 16.
Shape make_shape(Operation operation, uint64_t bytes, uint32_t world);

}  // namespace keel::bench::peers

#endif  // KEEL_BENCH_PEERS_SHAPE_H_
