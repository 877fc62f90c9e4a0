// SPDX-License-Identifier: Apache-2.0
// embedding, a bytewise copy of rows, and its gradient.
#include "kernels/gpu/simt.h"

namespace keel::simt {
namespace {

// Returns the table row of |index|; a row beyond the last if the table has none for |index|.
KEEL_SIMT_FUNCTION uint64_t row_of(int32_t index, int64_t first) {
  return static_cast<uint64_t>(index - first);
}

// Copies in units of |Unit|: the largest unit that divides rows and tensors.
template <typename Unit>
KEEL_SIMT_FUNCTION void embedding(const EmbeddingArguments& args) {
  const Global<const Unit> table(args.table);
  const Global<const int32_t> indices(args.indices);
  const Global<Unit> out(args.out);
  for_each_row<WarpTeam>(args.count, [&](uint64_t place) {
    const uint64_t row = row_of(indices[place], args.first);
    for (uint64_t c = WarpTeam::rank(); c < args.width; c += kWarp) {
      Unit unit = {};
      if (row < args.table_rows) unit = table[row * args.width + c];
      out[place * args.width + c] = unit;
    }
  });
}

// The warp at the first occurrence of an index adds up the gradients of all its occurrences in
// order, with columns distributed over the lanes: each cell has one owner and one order, without
// atomics. Rows that no index names stay zero.
template <typename T>
KEEL_SIMT_FUNCTION void embedding_backward(const EmbeddingBackwardArguments& args) {
  const Global<const T> dout(args.dout);
  const Global<const int32_t> indices(args.indices);
  const Global<float> dtable(args.dtable);
  const uint32_t lane = WarpTeam::rank();
  for_each_row<WarpTeam>(args.count, [&](uint64_t place) {
    const int32_t index = indices[place];
    const uint64_t row = row_of(index, args.first);
    if (row >= args.table_rows) return;
    const uint64_t at = row * args.width;
    for (uint64_t base = 0; base < args.count; base += kWarp) {
      const uint64_t mine = base + lane;
      Votes hits = vote(mine < args.count && indices[mine] == index);
      while (hits != 0) {
        const Votes bit = hits & (~hits + 1);
        hits ^= bit;
        uint32_t hit_lane = 0;
        while (bit >> hit_lane != 1) ++hit_lane;
        const uint64_t hit = base + hit_lane;
        if (hit < place) return;  // an earlier occurrence is the first
        for (uint64_t c = lane; c < args.width; c += kWarp) {
          const float before = hit == place ? 0.0F : dtable[at + c];
          dtable[at + c] = before + to_float(dout[hit * args.width + c]);
        }
      }
    }
  });
}

}  // namespace
}  // namespace keel::simt

KEEL_SIMT_KERNEL(embedding_2, keel::simt::EmbeddingArguments) {
  keel::simt::embedding<uint16_t>(args);
}
KEEL_SIMT_KERNEL(embedding_4, keel::simt::EmbeddingArguments) {
  keel::simt::embedding<uint32_t>(args);
}
KEEL_SIMT_KERNEL(embedding_16, keel::simt::EmbeddingArguments) {
  keel::simt::embedding<keel::simt::Unit16>(args);
}
KEEL_SIMT_KERNEL(embedding_backward_f32, keel::simt::EmbeddingBackwardArguments) {
  keel::simt::embedding_backward<float>(args);
}
KEEL_SIMT_KERNEL(embedding_backward_bf16, keel::simt::EmbeddingBackwardArguments) {
  keel::simt::embedding_backward<keel::simt::bf16>(args);
}
KEEL_SIMT_KERNEL(embedding_backward_f16, keel::simt::EmbeddingBackwardArguments) {
  keel::simt::embedding_backward<keel::simt::f16>(args);
}
