// SPDX-License-Identifier: Apache-2.0
// sum_of_squares and clip. The order of the sum is fixed for a shape: no atomics, and a thread sums
// the same elements wherever x begins.
#include "kernels/gpu/simt.h"

namespace keel::simt {
namespace {

KEEL_SIMT_FUNCTION bool is_finite(float value) {
  return fabsf(value) <= 3.402823466e38F;
}

// The result of one thread; BlockSquares reduces the results of a block.
struct Squares {
  Accumulator sum;
  bool found = false;  // an element is infinite or NaN

  KEEL_SIMT_FUNCTION void add(float value) {
    sum.add(value * value);
    found = found || !is_finite(value);
  }
};

// The block's sum, and whether a thread found a non-finite element; the same on all threads.
struct BlockSquares {
  KEEL_SIMT_FUNCTION explicit BlockSquares(const Squares& own)
      : sum(BlockTeam::reduce<Sum>(own.sum.value())),
        found(BlockTeam::reduce<Largest>(own.found ? 1.0F : 0.0F)) {}
  float sum;
  float found;  // 1 or 0
};

KEEL_SIMT_FUNCTION void write_outputs(const SumOfSquaresArguments& args,
                                      const BlockSquares& squares) {
  float total = squares.sum;
  bool found = squares.found != 0;
  if (args.before != 0) {
    const float before = Global<const float>(args.before)[0];
    total += before;
    found = found || !is_finite(before);
  }
  Global<float>(args.total)[0] = total;
  Global<int32_t>(args.found)[0] = found ? 1 : 0;
}

template <typename T>
KEEL_SIMT_FUNCTION void sum_of_squares(const SumOfSquaresArguments& args) {
  const Global<const T> x(args.x);
  constexpr int kLanes = 16 / sizeof(T);
  const bool is_aligned = args.x % 16 == 0;  // and so is every chunk
  for (uint64_t chunk = block_index().x; chunk < args.chunks; chunk += grid_size().x) {
    const uint64_t begin = chunk * args.chunk;
    const uint64_t end = begin + args.chunk < args.count ? begin + args.chunk : args.count;
    Squares own;
    for (uint64_t i = begin + kLanes * thread_index().x; i < end; i += kLanes * kThreads) {
      if (is_aligned && i + kLanes <= end) {
        const Lanes<T, kLanes> some = x.template load<kLanes>(i);
        for (int lane = 0; lane < kLanes; ++lane) own.add(to_float(some.at[lane]));
      } else {
        for (uint64_t j = i; j < i + kLanes && j < end; ++j) own.add(to_float(x[j]));
      }
    }
    const BlockSquares squares(own);
    if (thread_index().x != 0) continue;
    if (args.chunks == 1) {
      write_outputs(args, squares);
    } else {
      Global<float>(args.sums)[chunk] = squares.sum;
      Global<float>(args.flags)[chunk] = squares.found;
    }
  }
}

template <typename T>
KEEL_SIMT_FUNCTION void clip(const ClipArguments& args) {
  const Global<const T> g(args.g);
  const Global<T> g_out(args.g_out);
  const float sum = Global<const float>(args.sum_of_squares)[0];
  float factor = args.max_norm / (sqrtf(sum) + 1e-6F);
  if (factor > 1) factor = 1;  // NaN stays
  for_each<16 / sizeof(T)>(args.count, args.is_aligned != 0, [&](auto width, uint64_t i) {
    constexpr int n = decltype(width)::value;
    Lanes<T, n> some = g.template load<n>(i);
    for (int lane = 0; lane < n; ++lane) {
      some.at[lane] = Round<T>::of(factor * to_float(some.at[lane]));
    }
    g_out.template store<n>(i, some);
  });
}

}  // namespace
}  // namespace keel::simt

KEEL_SIMT_KERNEL(sum_of_squares_f32, keel::simt::SumOfSquaresArguments) {
  keel::simt::sum_of_squares<float>(args);
}
KEEL_SIMT_KERNEL(sum_of_squares_bf16, keel::simt::SumOfSquaresArguments) {
  keel::simt::sum_of_squares<keel::simt::bf16>(args);
}
KEEL_SIMT_KERNEL(sum_of_squares_f16, keel::simt::SumOfSquaresArguments) {
  keel::simt::sum_of_squares<keel::simt::f16>(args);
}

// Launched with one block.
KEEL_SIMT_KERNEL(sum_of_squares_join, keel::simt::SumOfSquaresArguments) {
  using namespace keel::simt;
  const Global<const float> sums(args.sums);
  const Global<const float> flags(args.flags);
  Squares own;
  for (uint64_t i = thread_index().x; i < args.chunks; i += kThreads) {
    own.sum.add(sums[i]);
    own.found = own.found || flags[i] != 0;
  }
  const BlockSquares squares(own);
  if (thread_index().x == 0) write_outputs(args, squares);
}

KEEL_SIMT_KERNEL(clip_f32, keel::simt::ClipArguments) {
  keel::simt::clip<float>(args);
}
KEEL_SIMT_KERNEL(clip_bf16, keel::simt::ClipArguments) {
  keel::simt::clip<keel::simt::bf16>(args);
}
KEEL_SIMT_KERNEL(clip_f16, keel::simt::ClipArguments) {
  keel::simt::clip<keel::simt::f16>(args);
}
