// SPDX-License-Identifier: Apache-2.0
// dropout_add, and dropout_backward, which equals dropout_add without a bias and a residual. 16-bit
// types are computed in float32 and rounded once.
#include <algorithm>
#include <keel/plugin_kit.hpp>

#include "backends/cpu/ops/float_call.h"

namespace keel::cpu {
namespace {

using kernels::kBlock;
using kernels::ReadFloats;
using kernels::WrittenFloats;

// Elements of a piece that one core processes: some 50 us. Pieces and blocks begin at a counter.
constexpr int64_t kPiece = int64_t{1} << 16;
static_assert(kPiece % 4 == 0 && kBlock % 4 == 0);

kernels::DropoutMask mask_of(const keel_op_call& call) {
  // dropout_backward has the same.
  const auto attributes = kit::attributes<keel_op_dropout_add_attributes>(call);
  return kernels::DropoutMask::of(attributes.p, attributes.seed, attributes.offset);
}

// Expands the bias of the |count| elements from |first| on into |room|: row after row of |width|.
const float* spread(const ReadFloats& bias, int64_t width, int64_t first, int64_t count,
                    float* room) {
  float piece[kBlock];
  for (int64_t done = 0; done < count;) {
    const int64_t column = (first + done) % width;
    const int64_t some = std::min(count - done, width - column);
    const float* const values = bias.block(column, some, piece);
    std::copy(values, values + some, room + done);
    done += some;
  }
  return room;
}

void enqueue_dropout(Stream& stream, const keel_op_call& call, const keel_tensor* bias_tensor,
                     const keel_tensor* residual_tensor) {
  const kernels::DropoutMask mask = mask_of(call);
  const ReadFloats x = read(stream, call.inputs[0]);
  const ReadFloats bias = read(stream, bias_tensor);
  const ReadFloats residual = read(stream, residual_tensor);
  const WrittenFloats y = written(stream, *call.outputs[0]);
  const int64_t width = bias_tensor == nullptr ? 0 : bias_tensor->shape[0];
  const int64_t total = kit::element_count(*call.outputs[0]);
  stream.enqueue([=](ThreadPool& pool) -> keel_status {
    pool.parallel_for(total, kPiece, [&](int64_t begin, int64_t end) {
      float room[4][kBlock];
      for (int64_t at = begin; at < end; at += kBlock) {
        const int64_t count = std::min(kBlock, end - at);
        float* const out = y.block(at, room[3]);
        kernels::dropout_add_f32(mask, at, x.block(at, count, room[0]),
                                 bias ? spread(bias, width, at, count, room[1]) : nullptr,
                                 residual ? residual.block(at, count, room[2]) : nullptr, out,
                                 count);
        y.finish(at, count, out);
      }
    });
    return KEEL_OK;
  });
}

OpSupport dropout_add_query(const keel_op_call& call) {
  return {is_dense_float_call(call) ? "dropout_add" : nullptr};
}

void dropout_add_run(Stream& stream, const keel_op_call& call, void*) {
  enqueue_dropout(stream, call, call.inputs[1], call.inputs[2]);
}

OpSupport dropout_backward_query(const keel_op_call& call) {
  return {is_dense_float_call(call) ? "dropout_backward" : nullptr};
}

void dropout_backward_run(Stream& stream, const keel_op_call& call, void*) {
  enqueue_dropout(stream, call, nullptr, nullptr);
}

}  // namespace

const Operator kDropoutAddOperator = {dropout_add_query, dropout_add_run};
const Operator kDropoutBackwardOperator = {dropout_backward_query, dropout_backward_run};

}  // namespace keel::cpu
