// SPDX-License-Identifier: Apache-2.0
// The arithmetic of flash attention and its gradient: float64, rounded once to the output's type.
#ifndef KEEL_EMULATOR_SHIMS_ACLNN_ATTENTION_H_
#define KEEL_EMULATOR_SHIMS_ACLNN_ATTENTION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "emulator/shims/aclnn/tensor.h"
#include "vendor/ascend/aclnn.h"

namespace keel::emulator::aclnn {

// The shape and the scalars of one attention.
struct Attention {
  bool is_bsnd;  // else BNSD
  int64_t batches;
  int64_t heads;
  int64_t kv_heads;
  int64_t queries;
  int64_t keys;
  int64_t depth;
  double scale;
  bool is_causal;
  int64_t pre_tokens;
  int64_t next_tokens;

  // The offset of row |i| of one of |of_heads| heads that have |extent| rows of |depth| elements.
  size_t row(int64_t batch, int64_t head, int64_t i, int64_t of_heads, int64_t extent) const {
    const int64_t index =
        is_bsnd ? (batch * extent + i) * of_heads + head : (batch * of_heads + head) * extent + i;
    return static_cast<size_t>(index * depth);
  }
  // The offset of query |i| of head |head|, and of the key, or value, |i| that the head reads.
  size_t query_row(int64_t batch, int64_t head, int64_t i) const {
    return row(batch, head, i, heads, queries);
  }
  size_t key_row(int64_t batch, int64_t head, int64_t i) const {
    return row(batch, head / (heads / kv_heads), i, kv_heads, keys);
  }
  // The index of a query among all in the order [B,N,S], that of the maxima and sums.
  size_t query_index(int64_t batch, int64_t head, int64_t i) const {
    return static_cast<size_t>((batch * heads + head) * queries + i);
  }
  Dims statistics() const { return {batches, heads, queries, ACLNN_SOFTMAX_COPIES}; }
  double flops() const {
    const double all =
        4 * static_cast<double>(batches * heads * queries) * static_cast<double>(keys * depth);
    return is_causal ? all / 2 : all;
  }
};

// |operands|: query, key, value, the mask if there is one, maxima, sums, output.
Status attend(const Attention& attention, std::vector<Operand>& operands);
// |operands|: query, key, value, the output's gradient, maxima, sums, output, the mask if there is
// one, and the gradients of value, key and query.
Status differentiate(const Attention& attention, std::vector<Operand>& operands);

}  // namespace keel::emulator::aclnn

#endif  // KEEL_EMULATOR_SHIMS_ACLNN_ATTENTION_H_
