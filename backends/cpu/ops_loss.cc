// sum and cross-entropy: reductions of rows.
#include <algorithm>
#include <keel/plugin_kit.hpp>

#include "backends/cpu/kernels.h"
#include "backends/cpu/ops.h"

namespace keel::cpu {
namespace {

// Elements of a piece that one core takes: some 20 us of exp, 30 us of sums from
// memory.
constexpr int64_t kPiece = int64_t{1} << 16;

int64_t rows_of_a_piece(int64_t columns) {
  return std::max<int64_t>(1, kPiece / std::max<int64_t>(1, columns));
}

bool dense(const keel_tensor& tensor, keel_dtype dtype) {
  return tensor.dtype == dtype && kit::is_contiguous(tensor);
}

// ---- sum ---------------------------------------------------------------------

OpSupport sum_query(const keel_op_call& call) {
  const bool runs = dense(*call.inputs[0], KEEL_FLOAT32) && dense(*call.outputs[0], KEEL_FLOAT32) &&
                    (call.attributes[0].i == -1 || call.inputs[0]->rank == 2);
  return {runs ? "sum" : nullptr};
}

// The whole array in a number of segments that depends on its length alone, so
// that the result does not depend on the number of cores.
float sum_all(ThreadPool& pool, const float* x, int64_t count) {
  constexpr int64_t kSegments = 64;
  const int64_t segment = std::max(kPiece, (count + kSegments - 1) / kSegments);
  double partial[kSegments] = {};
  pool.parallel_for(count, segment, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += segment) {
      partial[i / segment] = kernels::sum_f32(x + i, std::min(segment, end - i));
    }
  });
  double sum = 0;
  for (const double part : partial) sum += part;
  return static_cast<float>(sum);
}

void sum_run(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& tensor = *call.inputs[0];
  const auto* const x = address<const float>(stream, tensor);
  auto* const y = address<float>(stream, *call.outputs[0]);
  const int64_t count = kit::element_count(tensor);
  const int64_t axis = call.attributes[0].i;
  if (axis == -1 || (axis == 1 && tensor.shape[0] == 1)) {
    stream.enqueue([=](ThreadPool& pool) -> keel_status {
      *y = sum_all(pool, x, count);
      return KEEL_OK;
    });
    return;
  }
  const int64_t rows = tensor.shape[0];
  const int64_t columns = tensor.shape[1];
  if (axis == 1) {
    stream.enqueue([=](ThreadPool& pool) -> keel_status {
      pool.parallel_for(rows, rows_of_a_piece(columns), [=](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          y[i] = static_cast<float>(kernels::sum_f32(x + i * columns, columns));
        }
      });
      return KEEL_OK;
    });
    return;
  }
  // Whole cache lines of columns, and of those at least 256, which is what the
  // kernel takes at once.
  const int64_t piece = std::max<int64_t>(256, rows_of_a_piece(rows) / 16 * 16);
  stream.enqueue([=](ThreadPool& pool) -> keel_status {
    pool.parallel_for(columns, piece, [=](int64_t begin, int64_t end) {
      kernels::sum_rows_f32(x + begin, rows, end - begin, columns, y + begin);
    });
    return KEEL_OK;
  });
}

// ---- cross-entropy -------------------------------------------------------------

OpSupport cross_entropy_query(const keel_op_call& call) {
  const bool runs = dense(*call.inputs[0], KEEL_FLOAT32) && dense(*call.inputs[1], KEEL_INT32) &&
                    dense(*call.outputs[0], KEEL_FLOAT32) && dense(*call.outputs[1], KEEL_FLOAT32);
  return {runs ? "cross_entropy" : nullptr};
}

void cross_entropy_run(Stream& stream, const keel_op_call& call, void*) {
  const auto* const logits = address<const float>(stream, *call.inputs[0]);
  const auto* const labels = address<const int32_t>(stream, *call.inputs[1]);
  auto* const loss = address<float>(stream, *call.outputs[0]);
  auto* const log_sums = address<float>(stream, *call.outputs[1]);
  const int64_t rows = call.inputs[0]->shape[0];
  const int64_t classes = call.inputs[0]->shape[1];
  stream.enqueue([=](ThreadPool& pool) -> keel_status {
    pool.parallel_for(rows, rows_of_a_piece(classes), [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const float* const row = logits + i * classes;
        const int32_t label = labels[i];
        const double log_sum = kernels::log_sum_exp_f32(row, classes);
        log_sums[i] = static_cast<float>(log_sum);
        const bool counted = label >= 0 && label < classes;
        // Subtracted in float64: the difference is small where the model is right.
        loss[i] = counted ? static_cast<float>(log_sum - static_cast<double>(row[label])) : 0.0f;
      }
    });
    return KEEL_OK;
  });
}

OpSupport cross_entropy_backward_query(const keel_op_call& call) {
  const bool runs = dense(*call.inputs[0], KEEL_FLOAT32) && dense(*call.inputs[1], KEEL_INT32) &&
                    dense(*call.inputs[2], KEEL_FLOAT32) && dense(*call.outputs[0], KEEL_FLOAT32);
  return {runs ? "cross_entropy_backward" : nullptr};
}

void cross_entropy_backward_run(Stream& stream, const keel_op_call& call, void*) {
  const auto* const logits = address<const float>(stream, *call.inputs[0]);
  const auto* const labels = address<const int32_t>(stream, *call.inputs[1]);
  const auto* const log_sums = address<const float>(stream, *call.inputs[2]);
  auto* const gradient = address<float>(stream, *call.outputs[0]);
  const auto scale = static_cast<float>(call.attributes[0].f);
  const int64_t rows = call.inputs[0]->shape[0];
  const int64_t classes = call.inputs[0]->shape[1];
  stream.enqueue([=](ThreadPool& pool) -> keel_status {
    pool.parallel_for(rows, rows_of_a_piece(classes), [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        float* const row = gradient + i * classes;
        const int32_t label = labels[i];
        if (label < 0 || label >= classes) {
          std::fill_n(row, classes, 0.0f);
          continue;
        }
        kernels::scaled_softmax_f32(logits + i * classes, log_sums[i], scale, row, classes);
        row[label] -= scale;
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
