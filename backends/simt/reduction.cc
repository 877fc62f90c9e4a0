// sum. Its order is fixed for a shape: no atomics.
#include "backends/simt/simt.h"

namespace keel::simt {
namespace {

template <typename Team>
KEEL_SIMT_FUNCTION void sum_rows(const SumRowsArguments& args) {
  const Global<const float> x(args.x);
  const Global<float> y(args.y);
  for_each_row<Team>(args.rows, [&](uint64_t row) {
    const uint64_t begin = row * args.columns;
    const uint64_t end = begin + args.columns < args.count ? begin + args.columns : args.count;
    Accumulator own;
    uint64_t i = begin + Team::rank();
    // The begin of a row is aligned where that of the first one and the step are.
    if (args.x % 16 == 0 && args.columns % 4 == 0) {
      for (i = begin + 4 * Team::rank(); i + 4 <= end; i += 4 * Team::kSize) {
        const Lanes<float, 4> four = x.template load<4>(i);
        for (int lane = 0; lane < 4; ++lane) own.add(four.at[lane]);
      }
      i = begin + (end - begin) / 4 * 4 + Team::rank();
    }
    for (; i < end; i += Team::kSize) own.add(x[i]);
    const float sum = Team::template reduce<Sum>(own.value());
    if (Team::rank() == 0) y[row] = sum;
  });
}

}  // namespace
}  // namespace keel::simt

KEEL_SIMT_KERNEL(sum_rows_warp, keel::simt::SumRowsArguments) {
  keel::simt::sum_rows<keel::simt::WarpTeam>(args);
}
KEEL_SIMT_KERNEL(sum_rows_block, keel::simt::SumRowsArguments) {
  keel::simt::sum_rows<keel::simt::BlockTeam>(args);
}

// A thread a column of a slice: neighbours read neighbours.
KEEL_SIMT_KERNEL(sum_columns, keel::simt::SumColumnsArguments) {
  using namespace keel::simt;
  const Global<const float> x(args.x);
  const Global<float> y(args.y);
  const uint64_t slice = block_index().y;
  const uint64_t first = slice * args.slice_rows;
  const uint64_t end = first + args.slice_rows < args.rows ? first + args.slice_rows : args.rows;
  const uint64_t step = uint64_t{grid_size().x} * kThreads;
  for (uint64_t column = uint64_t{block_index().x} * kThreads + thread_index().x;
       column < args.columns; column += step) {
    Accumulator own;
    for (uint64_t row = first; row < end; ++row) own.add(x[row * args.columns + column]);
    y[slice * args.columns + column] = own.value();
  }
}
