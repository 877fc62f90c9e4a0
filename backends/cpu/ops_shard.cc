// cross_entropy_shard and its gradient: the part of a loss that a range of the vocabulary has.
#include <algorithm>
#include <array>
#include <cmath>
#include <keel/float_types.hpp>
#include <keel/plugin_kit.hpp>
#include <limits>

#include "backends/cpu/kernels.h"
#include "backends/cpu/ops.h"

namespace keel::cpu {
namespace {

// Elements of a piece that one core takes: some 20 us of exp.
constexpr int64_t kPiece = int64_t{1} << 16;
// Elements of bfloat16 that are widened at a time.
constexpr int64_t kBlock = 2048;

int64_t rows_of_a_piece(int64_t columns) {
  return std::max<int64_t>(1, kPiece / std::max<int64_t>(1, columns));
}

bool dense(const keel_tensor& tensor, keel_dtype dtype) {
  return tensor.dtype == dtype && kit::is_contiguous(tensor);
}

bool dense_logits(const keel_tensor& tensor) {
  return dense(tensor, KEEL_FLOAT32) || dense(tensor, KEEL_BFLOAT16);
}

// A row of logits as float32, a block at a time: body(block, count). One block where it is
// float32 already.
template <typename Body>
void for_each_block(const void* row, keel_dtype dtype, int64_t count, const Body& body) {
  if (dtype == KEEL_FLOAT32) {
    body(static_cast<const float*>(row), count);
    return;
  }
  std::array<float, kBlock> wide;
  const auto widen = kernels::cast_function(dtype, KEEL_FLOAT32);
  for (int64_t i = 0; i < count; i += kBlock) {
    const int64_t part = std::min(kBlock, count - i);
    widen(static_cast<const uint16_t*>(row) + i, wide.data(), part);
    body(static_cast<const float*>(wide.data()), part);
  }
}

// ---- forward ---------------------------------------------------------------------

OpSupport cross_entropy_shard_query(const keel_op_call& call) {
  bool runs = dense_logits(*call.inputs[0]) && kit::is_contiguous(*call.inputs[1]);
  for (uint32_t o = 0; o < call.output_count; ++o) runs &= kit::is_contiguous(*call.outputs[o]);
  return {runs ? "cross_entropy_shard" : nullptr};
}

struct Row {
  float max = -std::numeric_limits<float>::infinity();
  double sum_exp = 0;
};

Row measure(const void* logits, keel_dtype dtype, int64_t count) {
  Row row;
  for_each_block(logits, dtype, count, [&](const float* block, int64_t part) {
    row.max = std::max(row.max, kernels::largest_f32(block, part));
  });
  const bool nothing = row.max == -std::numeric_limits<float>::infinity();
  for_each_block(logits, dtype, count, [&](const float* block, int64_t part) {
    // Of masked entries alone the sum is 0, and NaN beside them shows in it.
    row.sum_exp += nothing ? std::any_of(block, block + part, [](float x) { return x != x; })
                                 ? std::numeric_limits<double>::quiet_NaN()
                                 : 0.0
                           : kernels::sum_exp_f32(block, row.max, part);
  });
  return row;
}

float element(const void* row, keel_dtype dtype, int64_t i) {
  return dtype == KEEL_FLOAT32 ? static_cast<const float*>(row)[i]
                               : to_float(static_cast<const bfloat16_t*>(row)[i]);
}

void cross_entropy_shard_run(Stream& stream, const keel_op_call& call, void*) {
  const auto* const logits = address<const char>(stream, *call.inputs[0]);
  const auto* const labels = address<const int32_t>(stream, *call.inputs[1]);
  auto* const max = address<float>(stream, *call.outputs[0]);
  auto* const sum_exp = address<float>(stream, *call.outputs[1]);
  auto* const target = address<float>(stream, *call.outputs[2]);
  const keel_dtype dtype = call.inputs[0]->dtype;
  const int64_t rows = call.inputs[0]->shape[0];
  const int64_t entries = call.inputs[0]->shape[1];
  const int64_t row_bytes = entries * kit::dtype_size(dtype);
  const int64_t first = call.attributes[0].i;
  stream.enqueue([=](ThreadPool& pool) -> keel_status {
    pool.parallel_for(rows, rows_of_a_piece(entries), [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const char* const row = logits + i * row_bytes;
        const Row measured = measure(row, dtype, entries);
        max[i] = measured.max;
        sum_exp[i] = static_cast<float>(measured.sum_exp);
        const int64_t column = labels[i] - first;
        target[i] = column >= 0 && column < entries ? element(row, dtype, column) : 0.0f;
      }
    });
    return KEEL_OK;
  });
}

// ---- backward --------------------------------------------------------------------

OpSupport cross_entropy_shard_backward_query(const keel_op_call& call) {
  const bool runs = dense_logits(*call.inputs[0]) && kit::is_contiguous(*call.inputs[1]) &&
                    kit::is_contiguous(*call.inputs[2]) && kit::is_contiguous(*call.outputs[0]);
  return {runs ? "cross_entropy_shard_backward" : nullptr};
}

// What the gradient of a row needs beside its logits.
struct RowGradient {
  float logsumexp;
  float scale;
  int64_t target;  // column of the label, or none of the row's

  void write(const float* logits, float* gradient, int64_t count) const {
    kernels::scaled_softmax_f32(logits, logsumexp, scale, gradient, count);
    if (target >= 0 && target < count) gradient[target] -= scale;
  }

  void write_bf16(const uint16_t* logits, uint16_t* gradient, int64_t count) const {
    std::array<float, kBlock> wide;
    const auto widen = kernels::cast_function(KEEL_BFLOAT16, KEEL_FLOAT32);
    const auto narrow = kernels::cast_function(KEEL_FLOAT32, KEEL_BFLOAT16);
    for (int64_t i = 0; i < count; i += kBlock) {
      const int64_t part = std::min(kBlock, count - i);
      widen(logits + i, wide.data(), part);
      RowGradient{logsumexp, scale, target - i}.write(wide.data(), wide.data(), part);
      narrow(wide.data(), gradient + i, part);
    }
  }
};

void cross_entropy_shard_backward_run(Stream& stream, const keel_op_call& call, void*) {
  const auto* const logits = address<const char>(stream, *call.inputs[0]);
  const auto* const labels = address<const int32_t>(stream, *call.inputs[1]);
  const auto* const log_sums = address<const float>(stream, *call.inputs[2]);
  auto* const gradient = address<char>(stream, *call.outputs[0]);
  const keel_dtype dtype = call.inputs[0]->dtype;
  const int64_t rows = call.inputs[0]->shape[0];
  const int64_t entries = call.inputs[0]->shape[1];
  const int64_t row_bytes = entries * kit::dtype_size(dtype);
  const auto scale = static_cast<float>(call.attributes[0].f);
  const int64_t first = call.attributes[1].i;
  stream.enqueue([=](ThreadPool& pool) -> keel_status {
    pool.parallel_for(rows, rows_of_a_piece(entries), [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const char* const from = logits + i * row_bytes;
        char* const to = gradient + i * row_bytes;
        if (labels[i] < 0) {
          std::fill_n(to, row_bytes, '\0');
          continue;
        }
        const RowGradient row = {log_sums[i], scale, labels[i] - first};
        if (dtype == KEEL_FLOAT32) {
          row.write(reinterpret_cast<const float*>(from), reinterpret_cast<float*>(to), entries);
        } else {
          row.write_bf16(reinterpret_cast<const uint16_t*>(from), reinterpret_cast<uint16_t*>(to),
                         entries);
        }
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
