// SPDX-License-Identifier: Apache-2.0
// The ranks' data and the expected results. Values are whole numbers below 16, so sums over up to a
// million ranks are exact in any order. All pieces differ, so a misplaced piece is detected.
#ifndef KEEL_BENCH_PEERS_PATTERN_H_
#define KEEL_BENCH_PEERS_PATTERN_H_

#include <cstdint>
#include <optional>

#include "bench/peers/shape.h"

namespace keel::bench::peers {

// Fills the first |shape.send| elements as |rank| sends them.
void fill_send(const Shape& shape, uint32_t rank, uint32_t seed, float* send);
// Fills |receive| with a value no operation can produce.
void poison(float* receive, uint64_t count);
// Returns the index of the first element of |receive| that differs from the expected result of
// |rank|.
std::optional<uint64_t> find_wrong(const Shape& shape, uint32_t rank, uint32_t seed,
                                   const float* receive);

}  // namespace keel::bench::peers

#endif  // KEEL_BENCH_PEERS_PATTERN_H_
