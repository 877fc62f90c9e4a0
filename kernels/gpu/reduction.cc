// SPDX-License-Identifier: Apache-2.0
// sum, in an order that is fixed for a shape: no atomics.
#include "kernels/gpu/rows.h"
#include "kernels/gpu/simt.h"

namespace keel::simt {
namespace {

template <typename T, typename Team>
KEEL_SIMT_FUNCTION void sum_rows(const SumRowsArguments& args) {
  const Global<const T> x(args.x);
  const Global<float> y(args.y);
  for_each_row<Team>(args.rows, [&](uint64_t row) {
    const uint64_t begin = row * args.columns;
    const uint64_t end = begin + args.columns < args.count ? begin + args.columns : args.count;
    Accumulator own;
    uint64_t i = begin + Team::rank();
    if (has_aligned_rows<T>(args.x, args.columns)) {
      constexpr int n = kLanes<T>;
      for (i = begin + n * Team::rank(); i + n <= end; i += n * Team::kSize) {
        const Lanes<T, n> some = x.template load<n>(i);
        for (int lane = 0; lane < n; ++lane) own.add(to_float(some.at[lane]));
      }
      i = begin + (end - begin) / n * n + Team::rank();
    }
    for (; i < end; i += Team::kSize) own.add(to_float(x[i]));
    const float sum = Team::template reduce<Sum>(own.value());
    if (Team::rank() == 0) y[row] = sum;
  });
}

// One thread per column of a slice: adjacent threads read adjacent elements.
template <typename T>
KEEL_SIMT_FUNCTION void sum_columns(const SumColumnsArguments& args) {
  const Global<const T> x(args.x);
  const Global<float> y(args.y);
  const uint64_t slice = block_index().y;
  const uint64_t first = slice * args.slice_rows;
  const uint64_t end = first + args.slice_rows < args.rows ? first + args.slice_rows : args.rows;
  const uint64_t step = uint64_t{grid_size().x} * kThreads;
  for (uint64_t column = uint64_t{block_index().x} * kThreads + thread_index().x;
       column < args.columns; column += step) {
    Accumulator own;
    for (uint64_t row = first; row < end; ++row) own.add(to_float(x[row * args.columns + column]));
    y[slice * args.columns + column] = own.value();
  }
}

}  // namespace
}  // namespace keel::simt

#define KEEL_SIMT_SUM(dtype, Type)                                           \
  KEEL_SIMT_KERNEL(sum_rows_##dtype##_warp, keel::simt::SumRowsArguments) {  \
    keel::simt::sum_rows<Type, keel::simt::WarpTeam>(args);                  \
  }                                                                          \
  KEEL_SIMT_KERNEL(sum_rows_##dtype##_block, keel::simt::SumRowsArguments) { \
    keel::simt::sum_rows<Type, keel::simt::BlockTeam>(args);                 \
  }                                                                          \
  KEEL_SIMT_KERNEL(sum_columns_##dtype, keel::simt::SumColumnsArguments) {   \
    keel::simt::sum_columns<Type>(args);                                     \
  }

KEEL_SIMT_SUM(f32, float)
KEEL_SIMT_SUM(bf16, keel::simt::bf16)
KEEL_SIMT_SUM(f16, keel::simt::f16)
#undef KEEL_SIMT_SUM
