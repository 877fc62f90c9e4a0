// SPDX-License-Identifier: Apache-2.0
// Shared parts of the losses of whole rows of logits and of shards of rows.
#ifndef KEEL_BACKENDS_CPU_OPS_LOSS_ROWS_H_
#define KEEL_BACKENDS_CPU_OPS_LOSS_ROWS_H_

#include <algorithm>
#include <cstdint>

#include "backends/cpu/kernels/float_rows.h"

namespace keel::cpu {

// Elements of a piece that one core processes: some 20 us of exp, 30 us of sums from memory.
inline constexpr int64_t kLossPiece = int64_t{1} << 16;

inline int64_t rows_of_a_piece(int64_t columns) {
  return std::max<int64_t>(1, kLossPiece / std::max<int64_t>(1, columns));
}

// The inputs of a row's gradient besides the logits.
struct RowGradient {
  kernels::LogSum logsumexp;
  float scale;
  int64_t target;  // column of the label; outside [0, count): no label in this row

  // |gradient| has the logits' dtype.
  void write(const kernels::ReadFloats& logits, const kernels::WrittenFloats& gradient,
             int64_t count) const {
    float room[kernels::kBlock];
    logits.for_each_block(count, [&](int64_t first, const float* block, int64_t width) {
      float* const to = gradient.block(first, room);
      kernels::scaled_softmax_f32(block, logsumexp, scale, to, width);
      if (target >= first && target < first + width) to[target - first] -= scale;
      gradient.finish(first, width, to);
    });
  }
};

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_OPS_LOSS_ROWS_H_
