// SPDX-License-Identifier: Apache-2.0
// What ranks send, and what must come of it. Values are whole numbers below 16, so that sums
// over up to a million ranks are exact in any order; no two pieces are alike, so that a piece
// in another's place is noticed.
#ifndef KEEL_BENCH_PEERS_PATTERN_H_
#define KEEL_BENCH_PEERS_PATTERN_H_

#include <cstdint>
#include <optional>

#include "bench/peers/shape.h"

namespace keel::bench::peers {

// The first |shape.send| elements, as |rank| sends them.
void fill_send(const Shape& shape, uint32_t rank, uint32_t seed, float* send);
// With what no operation can leave there.
void poison(float* receive, uint64_t count);
// The first element of |receive| that is not what |rank| must have got.
std::optional<uint64_t> find_wrong(const Shape& shape, uint32_t rank, uint32_t seed,
                                   const float* receive);

}  // namespace keel::bench::peers

#endif  // KEEL_BENCH_PEERS_PATTERN_H_
