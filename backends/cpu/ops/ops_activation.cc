// SPDX-License-Identifier: Apache-2.0
// clamp, gelu, swiglu and bias_gelu with their gradients. 16-bit types are computed in float32 and
// rounded once.
#include <algorithm>
#include <keel/plugin_kit.hpp>

#include "backends/cpu/ops/float_call.h"

namespace keel::cpu {
namespace {

using kernels::kBlock;
using kernels::ReadFloats;
using kernels::WrittenFloats;

// Elements of a piece that one core processes: some 50 us of exp.
constexpr int64_t kPiece = int64_t{1} << 16;

// Enqueues body(row, column, count) for all blocks of the rows of |shape|, [rows, width].
template <typename Body>
void enqueue_blocks(Stream& stream, const int64_t* shape, const Body& body) {
  const int64_t rows = shape[0];
  const int64_t width = shape[1];
  if (width == 0) return;
  const auto work = [=](ThreadPool& pool) -> keel_status {
    pool.parallel_for(rows, std::max<int64_t>(1, kPiece / width), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        for (int64_t column = 0; column < width; column += kBlock) {
          body(row, column, std::min(kBlock, width - column));
        }
      }
    });
    return KEEL_OK;
  };
  stream.enqueue(work, /*nanoseconds=*/2 * rows * width);
}

// Enqueues body(first, count) for all blocks of |elements|.
template <typename Body>
void enqueue_blocks(Stream& stream, int64_t elements, const Body& body) {
  const auto work = [=](ThreadPool& pool) -> keel_status {
    pool.parallel_for(elements, kPiece, [&](int64_t begin, int64_t end) {
      for (int64_t first = begin; first < end; first += kBlock) {
        body(first, std::min(kBlock, end - first));
      }
    });
    return KEEL_OK;
  };
  stream.enqueue(work, /*nanoseconds=*/2 * elements);
}

// ---- clamp -------------------------------------------------------------------

OpSupport clamp_query(const keel_op_call& call) {
  return {is_dense_float_call(call) ? "clamp" : nullptr};
}

void clamp_run(Stream& stream, const keel_op_call& call, void*) {
  const auto [min, max] = kit::attributes<keel_op_clamp_attributes>(call);
  const auto low = static_cast<float>(min);
  const auto high = static_cast<float>(max);
  const ReadFloats x = read(stream, call.inputs[0]);
  const WrittenFloats y = written(stream, *call.outputs[0]);
  enqueue_blocks(stream, kit::element_count(*call.outputs[0]), [=](int64_t first, int64_t count) {
    float room[2][kBlock];
    float* const out = y.block(first, room[1]);
    kernels::clamp_f32(x.block(first, count, room[0]), low, high, out, count);
    y.finish(first, count, out);
  });
}

OpSupport clamp_backward_query(const keel_op_call& call) {
  return {is_dense_float_call(call) ? "clamp_backward" : nullptr};
}

void clamp_backward_run(Stream& stream, const keel_op_call& call, void*) {
  const auto [min, max] = kit::attributes<keel_op_clamp_backward_attributes>(call);
  const auto low = static_cast<float>(min);
  const auto high = static_cast<float>(max);
  const ReadFloats x = read(stream, call.inputs[0]);
  const ReadFloats dy = read(stream, call.inputs[1]);
  const WrittenFloats dx = written(stream, *call.outputs[0]);
  enqueue_blocks(stream, kit::element_count(*call.outputs[0]), [=](int64_t first, int64_t count) {
    float room[3][kBlock];
    float* const out = dx.block(first, room[2]);
    kernels::clamp_backward_f32(x.block(first, count, room[0]), dy.block(first, count, room[1]),
                                low, high, out, count);
    dx.finish(first, count, out);
  });
}

// ---- gelu --------------------------------------------------------------------

OpSupport gelu_query(const keel_op_call& call) {
  return {is_dense_float_call(call) ? "gelu" : nullptr};
}

void gelu_run(Stream& stream, const keel_op_call& call, void*) {
  const bool erf = kit::attributes<keel_op_gelu_attributes>(call).form == KEEL_GELU_FORM_ERF;
  const ReadFloats x = read(stream, call.inputs[0]);
  const WrittenFloats y = written(stream, *call.outputs[0]);
  enqueue_blocks(stream, kit::element_count(*call.outputs[0]), [=](int64_t first, int64_t count) {
    float room[2][kBlock];
    float* const out = y.block(first, room[1]);
    kernels::bias_gelu_f32(erf, x.block(first, count, room[0]), /*bias=*/nullptr, out, count);
    y.finish(first, count, out);
  });
}

OpSupport gelu_backward_query(const keel_op_call& call) {
  return {is_dense_float_call(call) ? "gelu_backward" : nullptr};
}

void gelu_backward_run(Stream& stream, const keel_op_call& call, void*) {
  const bool erf =
      kit::attributes<keel_op_gelu_backward_attributes>(call).form == KEEL_GELU_FORM_ERF;
  const ReadFloats x = read(stream, call.inputs[0]);
  const ReadFloats dy = read(stream, call.inputs[1]);
  const WrittenFloats dx = written(stream, *call.outputs[0]);
  enqueue_blocks(stream, kit::element_count(*call.outputs[0]), [=](int64_t first, int64_t count) {
    float room[3][kBlock];
    float* const out = dx.block(first, room[2]);
    kernels::bias_gelu_backward_f32(erf, x.block(first, count, room[0]), /*bias=*/nullptr,
                                    dy.block(first, count, room[1]), out, count);
    dx.finish(first, count, out);
  });
}

// ---- swiglu ------------------------------------------------------------------

OpSupport swiglu_query(const keel_op_call& call) {
  return {is_dense_float_call(call) ? "swiglu" : nullptr};
}

void swiglu_run(Stream& stream, const keel_op_call& call, void*) {
  const ReadFloats x = read(stream, call.inputs[0]);
  const WrittenFloats y = written(stream, *call.outputs[0]);
  const int64_t width = call.outputs[0]->shape[1];
  enqueue_blocks(stream, call.outputs[0]->shape, [=](int64_t row, int64_t column, int64_t count) {
    float room[3][kBlock];
    const int64_t gate = 2 * row * width + column;
    const int64_t at = row * width + column;
    float* const out = y.block(at, room[2]);
    kernels::swiglu_f32(x.block(gate, count, room[0]), x.block(gate + width, count, room[1]), out,
                        count);
    y.finish(at, count, out);
  });
}

OpSupport swiglu_backward_query(const keel_op_call& call) {
  return {is_dense_float_call(call) ? "swiglu_backward" : nullptr};
}

void swiglu_backward_run(Stream& stream, const keel_op_call& call, void*) {
  const ReadFloats x = read(stream, call.inputs[0]);
  const ReadFloats dy = read(stream, call.inputs[1]);
  const WrittenFloats dx = written(stream, *call.outputs[0]);
  const int64_t width = call.inputs[1]->shape[1];
  enqueue_blocks(stream, call.inputs[1]->shape, [=](int64_t row, int64_t column, int64_t count) {
    float room[5][kBlock];
    const int64_t gate = 2 * row * width + column;
    const int64_t up = gate + width;
    float* const dgate = dx.block(gate, room[3]);
    float* const dup = dx.block(up, room[4]);
    kernels::swiglu_backward_f32(x.block(gate, count, room[0]), x.block(up, count, room[1]),
                                 dy.block(row * width + column, count, room[2]), dgate, dup, count);
    dx.finish(gate, count, dgate);
    dx.finish(up, count, dup);
  });
}

// ---- bias_gelu ---------------------------------------------------------------

// Returns NULL for absent |floats|.
const float* block_or_none(const ReadFloats& floats, int64_t first, int64_t count, float* room) {
  return floats ? floats.block(first, count, room) : nullptr;
}

OpSupport bias_gelu_query(const keel_op_call& call) {
  return {is_dense_float_call(call) ? "bias_gelu" : nullptr};
}

void bias_gelu_run(Stream& stream, const keel_op_call& call, void*) {
  const bool erf = kit::attributes<keel_op_bias_gelu_attributes>(call).form == KEEL_GELU_FORM_ERF;
  const ReadFloats x = read(stream, call.inputs[0]);
  const ReadFloats bias = read(stream, call.inputs[1]);
  const WrittenFloats y = written(stream, *call.outputs[0]);
  const int64_t width = call.outputs[0]->shape[1];
  enqueue_blocks(stream, call.outputs[0]->shape, [=](int64_t row, int64_t column, int64_t count) {
    float room[3][kBlock];
    const int64_t at = row * width + column;
    float* const out = y.block(at, room[2]);
    kernels::bias_gelu_f32(erf, x.block(at, count, room[0]),
                           block_or_none(bias, column, count, room[1]), out, count);
    y.finish(at, count, out);
  });
}

OpSupport bias_gelu_backward_query(const keel_op_call& call) {
  return {is_dense_float_call(call) ? "bias_gelu_backward" : nullptr};
}

void bias_gelu_backward_run(Stream& stream, const keel_op_call& call, void*) {
  const bool erf =
      kit::attributes<keel_op_bias_gelu_backward_attributes>(call).form == KEEL_GELU_FORM_ERF;
  const ReadFloats x = read(stream, call.inputs[0]);
  const ReadFloats bias = read(stream, call.inputs[1]);
  const ReadFloats dy = read(stream, call.inputs[2]);
  const WrittenFloats dx = written(stream, *call.outputs[0]);
  const int64_t width = call.outputs[0]->shape[1];
  enqueue_blocks(stream, call.outputs[0]->shape, [=](int64_t row, int64_t column, int64_t count) {
    float room[4][kBlock];
    const int64_t at = row * width + column;
    float* const out = dx.block(at, room[3]);
    kernels::bias_gelu_backward_f32(erf, x.block(at, count, room[0]),
                                    block_or_none(bias, column, count, room[1]),
                                    dy.block(at, count, room[2]), out, count);
    dx.finish(at, count, out);
  });
}

}  // namespace

const Operator kClampOperator = {clamp_query, clamp_run};
const Operator kClampBackwardOperator = {clamp_backward_query, clamp_backward_run};
const Operator kGeluOperator = {gelu_query, gelu_run};
const Operator kGeluBackwardOperator = {gelu_backward_query, gelu_backward_run};
const Operator kSwigluOperator = {swiglu_query, swiglu_run};
const Operator kSwigluBackwardOperator = {swiglu_backward_query, swiglu_backward_run};
const Operator kBiasGeluOperator = {bias_gelu_query, bias_gelu_run};
const Operator kBiasGeluBackwardOperator = {bias_gelu_backward_query, bias_gelu_backward_run};

}  // namespace keel::cpu
