// SPDX-License-Identifier: Apache-2.0
// sum and cross-entropy: reductions of rows.
#include <algorithm>
#include <cmath>
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

// ---- sum ---------------------------------------------------------------------

OpSupport sum_query(const keel_op_call& call) {
  const bool runs =
      is_dense_float_call(call) &&
      (kit::attributes<keel_op_sum_attributes>(call).axis == -1 || call.inputs[0]->rank == 2);
  return {runs ? "sum" : nullptr};
}

double sum_of(const ReadFloats& x, int64_t count) {
  double sum = 0;
  x.for_each_block(count, [&](int64_t, const float* block, int64_t width) {
    sum += kernels::sum_f32(block, width);
  });
  return sum;
}

// Sums the whole array in a number of segments that depends on the length alone, so that the result
// does not depend on the number of cores.
float sum_all(ThreadPool& pool, const ReadFloats& x, int64_t count) {
  constexpr int64_t kSegments = 64;
  const int64_t segment = std::max(kLossPiece, (count + kSegments - 1) / kSegments);
  double partial[kSegments] = {};
  pool.parallel_for(count, segment, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += segment) {
      partial[i / segment] = sum_of(x.from(i), std::min(segment, end - i));
    }
  });
  double sum = 0;
  for (const double part : partial) sum += part;
  return static_cast<float>(sum);
}

// y[j] = the sum over the rows of x[j]. Widens as many 16-bit rows at a time as the kernel sums in
// float32, so that the order is the same as for float32 rows.
void sum_columns(const ReadFloats& x, int64_t rows, int64_t columns, int64_t stride,
                 const WrittenFloats& y) {
  if (x.room(1) == 0) {
    kernels::sum_rows_f32(x.block(0, columns, nullptr), rows, columns, stride, y.block(0, nullptr));
    return;
  }
  constexpr int64_t kRows = 32;
  constexpr int64_t kColumns = 256;
  float widened[kRows * kColumns];
  float sums[kColumns];
  for (int64_t j = 0; j < columns; j += kColumns) {
    const int64_t width = std::min(kColumns, columns - j);
    double total[kColumns] = {};
    for (int64_t first = 0; first < rows; first += kRows) {
      const int64_t height = std::min(kRows, rows - first);
      for (int64_t i = 0; i < height; ++i) {
        x.block((first + i) * stride + j, width, widened + i * width);
      }
      kernels::sum_rows_f32(widened, height, width, width, sums);
      for (int64_t k = 0; k < width; ++k) total[k] += static_cast<double>(sums[k]);
    }
    float* const to = y.block(j, sums);
    for (int64_t k = 0; k < width; ++k) to[k] = static_cast<float>(total[k]);
    y.finish(j, width, to);
  }
}

void sum_run(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& tensor = *call.inputs[0];
  const ReadFloats x = read(stream, &tensor);
  const WrittenFloats y = written(stream, *call.outputs[0]);
  const int64_t count = kit::element_count(tensor);
  const int64_t axis = kit::attributes<keel_op_sum_attributes>(call).axis;
  if (axis == -1 || (axis == 1 && tensor.shape[0] == 1)) {
    const auto work = [=](ThreadPool& pool) -> keel_status {
      y.put(0, sum_all(pool, x, count));
      return KEEL_OK;
    };
    stream.enqueue(work, /*nanoseconds=*/count);
    return;
  }
  const int64_t rows = tensor.shape[0];
  const int64_t columns = tensor.shape[1];
  if (axis == 1) {
    stream.enqueue([=](ThreadPool& pool) -> keel_status {
      pool.parallel_for(rows, rows_of_a_piece(columns), [=](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          y.put(i, static_cast<float>(sum_of(x.from(i * columns), columns)));
        }
      });
      return KEEL_OK;
    });
    return;
  }
  // Whole cache lines of columns, and at least 256 columns, which the kernel processes at once.
  const int64_t piece = std::max<int64_t>(256, rows_of_a_piece(rows) / 16 * 16);
  stream.enqueue([=](ThreadPool& pool) -> keel_status {
    pool.parallel_for(columns, piece, [=](int64_t begin, int64_t end) {
      sum_columns(x.from(begin), rows, end - begin, columns, y.from(begin));
    });
    return KEEL_OK;
  });
}

// ---- cross-entropy -------------------------------------------------------------

OpSupport cross_entropy_query(const keel_op_call& call) {
  return {is_dense_float_call(call) ? "cross_entropy" : nullptr};
}

double log_sum_exp(const ReadFloats& row, int64_t count) {
  if (row.room(1) == 0) return kernels::log_sum_exp_f32(row.block(0, count, nullptr), count);
  // Widens each block once: sums relative to the largest value so far.
  float top = std::numeric_limits<float>::lowest();
  double sum = 0;
  row.for_each_block(count, [&](int64_t, const float* block, int64_t width) {
    const float block_top = kernels::largest_f32(block, width);
    if (block_top > top) {
      sum *= std::exp(static_cast<double>(top) - static_cast<double>(block_top));
      top = block_top;
    }
    sum += kernels::sum_exp_f32(block, top, width);
  });
  return static_cast<double>(top) + std::log(sum);
}

void cross_entropy_run(Stream& stream, const keel_op_call& call, void*) {
  const ReadFloats logits = read(stream, call.inputs[0]);
  const auto* const labels = address<const int32_t>(stream, *call.inputs[1]);
  auto* const loss = address<float>(stream, *call.outputs[0]);
  auto* const log_sums = address<float>(stream, *call.outputs[1]);
  const int64_t rows = call.inputs[0]->shape[0];
  const int64_t classes = call.inputs[0]->shape[1];
  stream.enqueue([=](ThreadPool& pool) -> keel_status {
    pool.parallel_for(rows, rows_of_a_piece(classes), [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const ReadFloats row = logits.from(i * classes);
        const int32_t label = labels[i];
        const double log_sum = log_sum_exp(row, classes);
        log_sums[i] = static_cast<float>(log_sum);
        const bool counted = label >= 0 && label < classes;
        // Subtracted in float64: the difference is small if the model is right.
        loss[i] = counted ? static_cast<float>(log_sum - static_cast<double>(row[label])) : 0.0f;
      }
    });
    return KEEL_OK;
  });
}

OpSupport cross_entropy_backward_query(const keel_op_call& call) {
  return {is_dense_float_call(call) ? "cross_entropy_backward" : nullptr};
}

// Returns |log_sum| with its rounding error, if |log_sum| is the log-sum of |row|. From 64 on the
// error is 2^-19 and more, and the probabilities have the same relative error: the row is therefore
// read once more.
kernels::LogSum with_rest(float log_sum, const ReadFloats& row, int64_t count) {
  if (!(std::abs(log_sum) >= 64)) return {log_sum};
  const double rest = log_sum_exp(row, count) - static_cast<double>(log_sum);
  // NaN and infinities have no rounding error.
  const bool is_of_row = std::abs(rest) < 0x1p-17 * static_cast<double>(std::abs(log_sum));
  return {log_sum, is_of_row ? static_cast<float>(rest) : 0.0f};
}

void cross_entropy_backward_run(Stream& stream, const keel_op_call& call, void*) {
  const ReadFloats logits = read(stream, call.inputs[0]);
  const auto* const labels = address<const int32_t>(stream, *call.inputs[1]);
  const auto* const log_sums = address<const float>(stream, *call.inputs[2]);
  const WrittenFloats gradient = written(stream, *call.outputs[0]);
  const auto scale =
      static_cast<float>(kit::attributes<keel_op_cross_entropy_backward_attributes>(call).scale);
  const int64_t rows = call.inputs[0]->shape[0];
  const int64_t classes = call.inputs[0]->shape[1];
  stream.enqueue([=](ThreadPool& pool) -> keel_status {
    pool.parallel_for(rows, rows_of_a_piece(classes), [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const WrittenFloats row = gradient.from(i * classes);
        const int32_t label = labels[i];
        if (label < 0 || label >= classes) {
          row.clear(classes);
          continue;
        }
        const ReadFloats from = logits.from(i * classes);
        RowGradient{with_rest(log_sums[i], from, classes), scale, label}.write(from, row, classes);
      }
    });
    return KEEL_OK;
  });
}

}  // namespace

const Operator kSumOperator = {sum_query, sum_run};
const Operator kCrossEntropyOperator = {cross_entropy_query, cross_entropy_run};
const Operator kCrossEntropyBackwardOperator = {cross_entropy_backward_query,
                                                cross_entropy_backward_run};

}  // namespace keel::cpu
