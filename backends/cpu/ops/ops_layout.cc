// SPDX-License-Identifier: Apache-2.0
// transpose: copies elements into another order, without interpreting them.
#include <algorithm>
#include <cstring>
#include <keel/permutation.hpp>
#include <keel/plugin_kit.hpp>

#include "backends/cpu/kernels/families.h"
#include "backends/cpu/ops/ops.h"
#include "backends/cpu/runtime/caches.h"

namespace keel::cpu {
namespace {

// Bytes of a piece that one core processes: some 50 us from memory.
constexpr int64_t kPieceBytes = int64_t{1} << 18;
// Columns of a strip; of one that is tiled, whose columns are lines of x in as many pages.
constexpr int64_t kStrip = 1024;
constexpr int64_t kTiledStrip = 64;

struct Unit16 {
  uint64_t words[2];
};

// Rows of a strip: adjacent elements of x fill a cache line, and so do a column's elements in y.
template <typename Unit>
constexpr int64_t kSide = std::max<int64_t>(8, 64 / int64_t{sizeof(Unit)});

// Moves the rows and columns of one block of a plane; |x| and |y| point to the block's first
// element.
template <typename Unit>
void move_block(const Permutation& plan, const Unit* x, Unit* y, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r) {
    const Unit* const from = x + r * plan.row.from;
    Unit* const to = y + r * plan.row.to;
    if (plan.column.from == 1) {
      std::memcpy(to, from, static_cast<size_t>(columns) * sizeof(Unit));
    } else {
      for (int64_t c = 0; c < columns; ++c) to[c] = from[c * plan.column.from];
    }
  }
}

// The same for rows that are nearer to each other in x than columns, through memory for a block
// whose rows are written whole.
template <typename Unit>
void move_tile(const Permutation& plan, const Unit* x, Unit* y, int64_t rows, int64_t columns,
               bool past_caches) {
  alignas(64) Unit room[kSide<Unit> * kTiledStrip];
  const kernels::Plane from = {columns, plan.column.from, rows, plan.row.from};
  kernels::gather_plane(sizeof(Unit), x, from, room);
  kernels::scatter_plane(sizeof(Unit), room, y, {columns, 1, rows, plan.row.to}, past_caches);
}

template <typename Unit>
void move(ThreadPool& pool, const Permutation& plan, const void* x, void* y) {
  const int64_t side = plan.tiled ? kSide<Unit> : 1;
  const int64_t strip = std::min(plan.tiled ? kTiledStrip : kStrip, plan.column.extent);
  const int64_t strips = (plan.column.extent + strip - 1) / strip;
  const int64_t bands = (plan.row.extent + side - 1) / side;
  const int64_t grain = std::max<int64_t>(1, kPieceBytes / (side * strip * int64_t{sizeof(Unit)}));
  const int64_t pieces = plan.outer_extent() * bands * strips;
  const bool past_caches =
      plan.tiled && pieces * side * strip * int64_t{sizeof(Unit)} > last_cache();
  pool.parallel_for(pieces, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      // Tiles follow each other along the lines of x, so that its pages stay in the TLB.
      const int64_t column = (plan.tiled ? i / bands % strips : i % strips) * strip;
      const int64_t row = (plan.tiled ? i % bands : i / strips % bands) * side;
      int64_t from = column * plan.column.from + row * plan.row.from;
      int64_t to = column + row * plan.row.to;
      int64_t rest = i / strips / bands;
      for (uint32_t axis = plan.outer_count; axis-- > 0;) {
        const int64_t index = rest % plan.outer[axis].extent;
        rest /= plan.outer[axis].extent;
        from += index * plan.outer[axis].from;
        to += index * plan.outer[axis].to;
      }
      const int64_t rows = std::min(side, plan.row.extent - row);
      const int64_t columns = std::min(strip, plan.column.extent - column);
      const Unit* const source = static_cast<const Unit*>(x) + from;
      Unit* const target = static_cast<Unit*>(y) + to;
      if constexpr (sizeof(Unit) <= 8) {
        if (plan.tiled) {
          move_tile(plan, source, target, rows, columns, past_caches);
          continue;
        }
      }
      const int64_t width = plan.tiled ? side : columns;
      for (int64_t c = 0; c < columns; c += width) {
        move_block(plan, source + c * plan.column.from, target + c, rows,
                   std::min(width, columns - c));
      }
    }
    if (past_caches) kernels::finish_streaming();
  });
}

OpSupport transpose_query(const keel_op_call& call) {
  return {kit::is_contiguous(*call.outputs[0]) ? "transpose" : nullptr};
}

void transpose_run(Stream& stream, const keel_op_call& call, void*) {
  if (kit::element_count(*call.outputs[0]) == 0) return;
  const auto* const x = address<const void>(stream, *call.inputs[0]);
  auto* const y = address<void>(stream, *call.outputs[0]);
  const Permutation plan = make_permutation(call, sizeof(Unit16));
  const auto work = [=](ThreadPool& pool) -> keel_status {
    switch (plan.unit) {
      case 1:
        move<uint8_t>(pool, plan, x, y);
        break;
      case 2:
        move<uint16_t>(pool, plan, x, y);
        break;
      case 4:
        move<uint32_t>(pool, plan, x, y);
        break;
      case 8:
        move<uint64_t>(pool, plan, x, y);
        break;
      default:
        move<Unit16>(pool, plan, x, y);
        break;
    }
    return KEEL_OK;
  };
  stream.enqueue(work, /*nanoseconds=*/kit::element_count(*call.outputs[0]));
}

}  // namespace

const Operator kTransposeOperator = {transpose_query, transpose_run};

}  // namespace keel::cpu
