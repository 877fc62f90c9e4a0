// SPDX-License-Identifier: Apache-2.0
// cross_entropy_shard and its gradient: the contribution of a range of the vocabulary to a loss.
#include <algorithm>
#include <keel/plugin_kit.hpp>
#include <limits>

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/ops/float_call.h"
#include "backends/cpu/ops/loss_rows.h"
#include "backends/cpu/ops/ops.h"

namespace keel::cpu {
namespace {

using kernels::ReadFloats;
using kernels::WrittenFloats;

// ---- forward ---------------------------------------------------------------------

OpSupport cross_entropy_shard_query(const keel_op_call& call) {
  return {is_dense_float_call(call) ? "cross_entropy_shard" : nullptr};
}

struct Row {
  float max = -std::numeric_limits<float>::infinity();
  double sum_exp = 0;
};

Row measure(const ReadFloats& logits, int64_t count) {
  Row row;
  logits.for_each_block(count, [&](int64_t, const float* block, int64_t width) {
    row.max = std::max(row.max, kernels::largest_f32(block, width));
  });
  // The sum is 0 if all entries are masked; a NaN beside masked entries appears in the sum.
  logits.for_each_block(count, [&](int64_t, const float* block, int64_t width) {
    row.sum_exp += kernels::sum_exp_f32(block, row.max, width);
  });
  return row;
}

void cross_entropy_shard_run(Stream& stream, const keel_op_call& call, void*) {
  const ReadFloats logits = read(stream, call.inputs[0]);
  const auto* const labels = address<const int32_t>(stream, *call.inputs[1]);
  auto* const max = address<float>(stream, *call.outputs[0]);
  auto* const sum_exp = address<float>(stream, *call.outputs[1]);
  auto* const target = address<float>(stream, *call.outputs[2]);
  const int64_t rows = call.inputs[0]->shape[0];
  const int64_t entries = call.inputs[0]->shape[1];
  const int64_t first = kit::attributes<keel_op_cross_entropy_shard_attributes>(call).first;
  stream.enqueue([=](ThreadPool& pool) -> keel_status {
    pool.parallel_for(rows, rows_of_a_piece(entries), [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const ReadFloats row = logits.from(i * entries);
        const Row measured = measure(row, entries);
        max[i] = measured.max;
        sum_exp[i] = static_cast<float>(measured.sum_exp);
        const int64_t column = labels[i] - first;
        target[i] = column >= 0 && column < entries ? row[column] : 0.0f;
      }
    });
    return KEEL_OK;
  });
}

// ---- backward --------------------------------------------------------------------

OpSupport cross_entropy_shard_backward_query(const keel_op_call& call) {
  return {is_dense_float_call(call) ? "cross_entropy_shard_backward" : nullptr};
}

void cross_entropy_shard_backward_run(Stream& stream, const keel_op_call& call, void*) {
  const ReadFloats logits = read(stream, call.inputs[0]);
  const auto* const labels = address<const int32_t>(stream, *call.inputs[1]);
  const auto* const log_sums = address<const float>(stream, *call.inputs[2]);
  const WrittenFloats gradient = written(stream, *call.outputs[0]);
  const int64_t rows = call.inputs[0]->shape[0];
  const int64_t entries = call.inputs[0]->shape[1];
  const auto scale = static_cast<float>(
      kit::attributes<keel_op_cross_entropy_shard_backward_attributes>(call).scale);
  const int64_t first =
      kit::attributes<keel_op_cross_entropy_shard_backward_attributes>(call).first;
  stream.enqueue([=](ThreadPool& pool) -> keel_status {
    pool.parallel_for(rows, rows_of_a_piece(entries), [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const WrittenFloats row = gradient.from(i * entries);
        if (labels[i] < 0) {
          row.clear(entries);
          continue;
        }
        RowGradient{{log_sums[i]}, scale, labels[i] - first}.write(logits.from(i * entries), row,
                                                                   entries);
      }
    });
    return KEEL_OK;
  });
}

}  // namespace

const Operator kCrossEntropyShardOperator = {cross_entropy_shard_query, cross_entropy_shard_run};
const Operator kCrossEntropyShardBackwardOperator = {cross_entropy_shard_backward_query,
                                                     cross_entropy_shard_backward_run};

}  // namespace keel::cpu
