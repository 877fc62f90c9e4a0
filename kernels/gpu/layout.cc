// SPDX-License-Identifier: Apache-2.0
// transpose: reorders opaque units of 1 to 16 bytes.
#include "kernels/gpu/simt.h"

namespace keel::simt {
namespace {

constexpr uint32_t kTransposePitch = kTransposeTile + 1;  // rows begin in different banks

// The offsets, in x and in y, of the element at |index| of the outer axes.
struct OuterOffset {
  uint64_t from = 0;
  uint64_t to = 0;

  template <typename Index>
  KEEL_SIMT_FUNCTION OuterOffset(const TransposeArguments& args, Index index) {
    for (uint32_t axis = args.outer_count; axis-- > 0;) {
      const auto extent = static_cast<Index>(args.outer[axis].extent);
      const Index rest = index / extent;
      const Index own = index - rest * extent;
      from += own * args.outer[axis].from;
      to += own * args.outer[axis].to;
      index = rest;
    }
  }
};

// Moves units in the order of y, whose innermost axes are rows and columns.
template <typename Unit, typename Index>
KEEL_SIMT_FUNCTION void transpose_each(const TransposeArguments& args) {
  const Global<const Unit> x(args.x);
  const Global<Unit> y(args.y);
  const auto columns = static_cast<Index>(args.column.extent);
  const auto rows = static_cast<Index>(args.row.extent);
  for_each<1>(args.count, false, [&](auto, uint64_t i) {
    const auto at = static_cast<Index>(i);
    const Index row = at / columns;
    const Index outer = row / rows;
    const OuterOffset place(args, outer);
    y[i] = x[place.from + (row - outer * rows) * args.row.from +
             (at - row * columns) * args.column.from];
  });
}

template <typename Unit>
KEEL_SIMT_FUNCTION void transpose(const TransposeArguments& args) {
  // 64-bit divisions cost several times as much as 32-bit divisions.
  if (args.count <= 0xffffffffu) {
    transpose_each<Unit, uint32_t>(args);
  } else {
    transpose_each<Unit, uint64_t>(args);
  }
}

// A block moves a tile: adjacent threads read adjacent units of x, and write adjacent units of y.
template <typename Unit>
KEEL_SIMT_FUNCTION void transpose_tiles(const TransposeArguments& args) {
  KEEL_SIMT_SHARED(Unit, tile, kTransposeTile * kTransposePitch);
  const Global<const Unit> x(args.x);
  const Global<Unit> y(args.y);
  const uint64_t across = (args.column.extent + kTransposeTile - 1) / kTransposeTile;
  const uint64_t down = (args.row.extent + kTransposeTile - 1) / kTransposeTile;
  const uint32_t lane = thread_index().x % kTransposeTile;
  const uint32_t line = thread_index().x / kTransposeTile;
  constexpr uint32_t kLines = kThreads / kTransposeTile;
  for (uint64_t index = block_index().x; index < args.tiles; index += grid_size().x) {
    const uint64_t first_column = index % across * kTransposeTile;
    const uint64_t first_row = index / across % down * kTransposeTile;
    const OuterOffset place(args, index / across / down);
    const uint64_t columns = args.column.extent - first_column;  // remaining
    const uint64_t rows = args.row.extent - first_row;
    const uint64_t from = place.from + first_row * args.row.from + first_column * args.column.from;
    const uint64_t to = place.to + first_row * args.row.to + first_column;
    for (uint32_t c = line; c < kTransposeTile; c += kLines) {
      if (c < columns && lane < rows) {
        tile[c * kTransposePitch + lane] = x[from + lane * args.row.from + c * args.column.from];
      }
    }
    barrier();
    for (uint32_t r = line; r < kTransposeTile; r += kLines) {
      if (r < rows && lane < columns)
        y[to + r * args.row.to + lane] = tile[lane * kTransposePitch + r];
    }
    barrier();  // all threads have read the tile
  }
}

}  // namespace
}  // namespace keel::simt

#define KEEL_SIMT_TRANSPOSE(bytes, Unit)                                      \
  KEEL_SIMT_KERNEL(transpose_##bytes, keel::simt::TransposeArguments) {       \
    keel::simt::transpose<Unit>(args);                                        \
  }                                                                           \
  KEEL_SIMT_KERNEL(transpose_tiles_##bytes, keel::simt::TransposeArguments) { \
    keel::simt::transpose_tiles<Unit>(args);                                  \
  }

KEEL_SIMT_TRANSPOSE(1, uint8_t)
KEEL_SIMT_TRANSPOSE(2, uint16_t)
KEEL_SIMT_TRANSPOSE(4, uint32_t)
KEEL_SIMT_TRANSPOSE(8, uint64_t)
KEEL_SIMT_TRANSPOSE(16, keel::simt::Unit16)
#undef KEEL_SIMT_TRANSPOSE
