// SPDX-License-Identifier: Apache-2.0
// The primitives for kernels, so that one source serves every SIMT chip (single instruction,
// multiple threads). simt_target.h, found by the include path, implements the primitives: in cuda/
// here, and for the emulated chip, where threads are fibers of the host.
//
//   KEEL_SIMT_KERNEL(name, Arguments) { ... args ... }   a kernel keel_name
//   KEEL_SIMT_FUNCTION                                   before a device function
//   KEEL_SIMT_CALLED                                     the same, called instead of inlined
//   KEEL_SIMT_SHARED(Type, name, count);                 memory shared by a block, not zeroed
//   thread_index(), block_index(), grid_size()           blocks have kThreads threads
//   barrier()                                            all threads of the block must call
//   shuffle_xor(value, mask), vote(bool)                 all threads of the warp must call; a warp
//                                                        has kWarp threads, 32 or 64
//   to_float, to_bf16, to_f16, to_i32                    to nearest even; to_i32 truncates
//   Global<T>(address)                                   device memory: [i], load<n>, store<n>
//
// load<n> and store<n> of 16 bytes require addresses that are multiples of 16.
#ifndef KEEL_KERNELS_GPU_SIMT_H_
#define KEEL_KERNELS_GPU_SIMT_H_

#include <simt_target.h>

#include <cmath>

#include "kernels/gpu/types.h"

namespace keel::simt {

KEEL_SIMT_FUNCTION float to_float(float value) {
  return value;
}
KEEL_SIMT_FUNCTION float to_float(int32_t value) {
  return static_cast<float>(value);
}

// Rounds |value| to |T|.
template <typename T>
struct Round;
template <>
struct Round<float> {
  KEEL_SIMT_FUNCTION static float of(float value) { return value; }
};
template <>
struct Round<bf16> {
  KEEL_SIMT_FUNCTION static bf16 of(float value) { return to_bf16(value); }
};
template <>
struct Round<f16> {
  KEEL_SIMT_FUNCTION static f16 of(float value) { return to_f16(value); }
};
template <>
struct Round<int32_t> {
  KEEL_SIMT_FUNCTION static int32_t of(float value) { return to_i32(value); }
};

template <int n>
struct Width {
  static constexpr int value = n;
};

// Calls body(Width<n>, i) for the elements i, i + 1, ... i + n - 1: covers [0, count) once, |lanes|
// at a time if aligned, distributed over the whole grid.
template <int lanes, typename Body>
KEEL_SIMT_FUNCTION void for_each(uint64_t count, bool is_aligned, const Body& body) {
  const uint64_t step = uint64_t{grid_size().x} * kThreads;
  const uint64_t first = uint64_t{block_index().x} * kThreads + thread_index().x;
  const uint64_t groups = is_aligned ? count / lanes : 0;
  for (uint64_t i = first; i < groups; i += step) body(Width<lanes>{}, i * lanes);
  for (uint64_t i = groups * lanes + first; i < count; i += step) body(Width<1>{}, i);
}

// A sum and its accumulated rounding error, by Knuth's two-sum: as accurate as twice the precision.
// A plain sum of n positive numbers is off by about n/4 units in the last place.
class Accumulator {
 public:
  KEEL_SIMT_FUNCTION void add(float value) {
    const float sum = sum_ + value;
    const float part = sum - sum_;
    lost_ += (sum_ - (sum - part)) + (value - part);
    sum_ = sum;
  }
  // Infinities and NaN leave NaN in |lost_|.
  KEEL_SIMT_FUNCTION float value() const {
    return fabsf(sum_) <= 3.402823466e38F ? sum_ + lost_ : sum_;
  }

 private:
  float sum_ = 0;
  float lost_ = 0;
};

struct Sum {
  static constexpr float kNone = 0;
  KEEL_SIMT_FUNCTION static float of(float a, float b) { return a + b; }
};
// A number wins against NaN.
struct Largest {
  static constexpr float kNone = -3.402823466e38F;
  KEEL_SIMT_FUNCTION static float of(float a, float b) { return fmaxf(a, b); }
};

// All threads of the warp get the same bits: both sides of a step add the same two numbers.
template <typename Operation>
KEEL_SIMT_FUNCTION float reduce_warp(float value) {
  for (uint32_t mask = kWarp / 2; mask != 0; mask /= 2) {
    value = Operation::of(value, shuffle_xor(value, mask));
  }
  return value;
}

// The threads that process a row together: a warp or a block.
struct WarpTeam {
  static constexpr uint32_t kSize = kWarp;
  static constexpr uint32_t kTeams = kWarps;  // per block
  KEEL_SIMT_FUNCTION static uint32_t index() { return thread_index().x / kWarp; }
  KEEL_SIMT_FUNCTION static uint32_t rank() { return thread_index().x % kWarp; }
  template <typename Operation>
  KEEL_SIMT_FUNCTION static float reduce(float value) {
    return reduce_warp<Operation>(value);
  }
};
struct BlockTeam {
  static constexpr uint32_t kSize = kThreads;
  static constexpr uint32_t kTeams = 1;
  KEEL_SIMT_FUNCTION static uint32_t index() { return 0; }
  KEEL_SIMT_FUNCTION static uint32_t rank() { return thread_index().x; }
  template <typename Operation>
  KEEL_SIMT_FUNCTION static float reduce(float value) {
    KEEL_SIMT_SHARED(float, partial, kWarps);
    value = reduce_warp<Operation>(value);
    barrier();  // all threads have read the last call's partial results
    if (rank() % kWarp == 0) partial[rank() / kWarp] = value;
    barrier();
    float result = partial[0];
    for (uint32_t i = 1; i < kWarps; ++i) result = Operation::of(result, partial[i]);
    return result;
  }
};

// Calls body(row) for all |rows|, distributed over the teams of the grid; all threads of a team get
// the same rows.
template <typename Team, typename Body>
KEEL_SIMT_FUNCTION void for_each_row(uint64_t rows, const Body& body) {
  const uint64_t step = uint64_t{grid_size().x} * Team::kTeams;
  for (uint64_t row = uint64_t{block_index().x} * Team::kTeams + Team::index(); row < rows;
       row += step) {
    body(row);
  }
}

}  // namespace keel::simt

#endif  // KEEL_KERNELS_GPU_SIMT_H_
