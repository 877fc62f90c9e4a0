// SPDX-License-Identifier: Apache-2.0
// embedding and its gradient: selects and sums rows by index.
#include <algorithm>
#include <cstring>
#include <keel/plugin_kit.hpp>

#include "backends/cpu/ops/float_call.h"

namespace keel::cpu {
namespace {

// Bytes that one core moves at a time, about 50 us.
constexpr int64_t kPieceBytes = int64_t{1} << 18;

OpSupport embedding_query(const keel_op_call& call) {
  return {is_dense_float_call(call) ? "embedding" : nullptr};
}

void embedding_run(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& shape = *call.inputs[0];
  const auto* const table = address<const char>(stream, shape);
  const auto* const indices = address<const int32_t>(stream, *call.inputs[1]);
  auto* const out = address<char>(stream, *call.outputs[0]);
  const int64_t count = kit::element_count(*call.inputs[1]);
  const int64_t rows = shape.shape[0];
  const int64_t first = kit::attributes<keel_op_embedding_attributes>(call).first;
  const int64_t row_bytes = shape.shape[1] * kit::dtype_size(shape.dtype);
  if (row_bytes == 0) return;
  const int64_t piece = std::max<int64_t>(1, kPieceBytes / row_bytes);
  stream.enqueue([=](ThreadPool& pool) -> keel_status {
    pool.parallel_for(count, piece, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = indices[i] - first;
        char* const to = out + i * row_bytes;
        if (row >= 0 && row < rows) {
          std::memcpy(to, table + row * row_bytes, static_cast<size_t>(row_bytes));
        } else {
          std::memset(to, 0, static_cast<size_t>(row_bytes));
        }
      }
    });
    return KEEL_OK;
  });
}

OpSupport embedding_backward_query(const keel_op_call& call) {
  return {is_dense_float_call(call) ? "embedding_backward" : nullptr};
}

// sum += the |width| elements of |gradient| from |first| on.
void add_row(const kernels::ReadFloats& gradient, int64_t first, int64_t width, float* sum) {
  float room[kernels::kBlock];
  for (int64_t j = 0; j < width; j += kernels::kBlock) {
    const int64_t count = std::min(kernels::kBlock, width - j);
    kernels::add_f32(sum + j, gradient.block(first + j, count, room), sum + j, count);
  }
}

// A core owns a range of the table's rows and scans all indices, in order, for indices in the
// range: no two cores touch a row, and the order of a row's sum does not depend on the number of
// cores.
void embedding_backward_run(Stream& stream, const keel_op_call& call, void*) {
  const kernels::ReadFloats gradient = read(stream, call.inputs[0]);
  const auto* const indices = address<const int32_t>(stream, *call.inputs[1]);
  auto* const table = address<float>(stream, *call.outputs[0]);
  const int64_t count = kit::element_count(*call.inputs[1]);
  const int64_t rows = call.outputs[0]->shape[0];
  const int64_t width = call.outputs[0]->shape[1];
  const int64_t first = kit::attributes<keel_op_embedding_backward_attributes>(call).first;
  if (rows == 0 || width == 0) return;
  stream.enqueue([=](ThreadPool& pool) -> keel_status {
    // One range per core, since each range scans all indices; a small call stays on one core.
    const int64_t work = (rows + count) * width * int64_t{sizeof(float)};
    const int64_t ranges = std::clamp<int64_t>(work / kPieceBytes, 1, pool.cores());
    pool.parallel_for(rows, (rows + ranges - 1) / ranges, [=](int64_t begin, int64_t end) {
      std::fill(table + begin * width, table + end * width, 0.0f);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t row = indices[i] - first;
        if (row < begin || row >= end) continue;
        add_row(gradient, i * width, width, table + row * width);
      }
    });
    return KEEL_OK;
  });
}

}  // namespace

const Operator kEmbeddingOperator = {embedding_query, embedding_run};
const Operator kEmbeddingBackwardOperator = {embedding_backward_query, embedding_backward_run};

}  // namespace keel::cpu
