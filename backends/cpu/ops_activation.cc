// swiglu and bias_gelu with their gradients: activations of rows.
#include <algorithm>
#include <keel/plugin_kit.hpp>

#include "backends/cpu/kernels.h"
#include "backends/cpu/ops.h"

namespace keel::cpu {
namespace {

// Elements of a piece that one core takes: some 50 us of exp.
constexpr int64_t kPiece = int64_t{1} << 16;

bool dense_f32(const keel_op_call& call) {
  const auto fits = [](const keel_tensor* tensor) {
    return tensor == nullptr || (tensor->dtype == KEEL_FLOAT32 && kit::is_contiguous(*tensor));
  };
  return std::all_of(call.inputs, call.inputs + call.input_count, fits) &&
         std::all_of(call.outputs, call.outputs + call.output_count, fits);
}

// Enqueues body(first row, rows) over pieces of the rows of |width|.
template <typename Body>
void enqueue_rows(Stream& stream, int64_t rows, int64_t width, const Body& body) {
  if (width == 0) return;
  const int64_t piece = std::max<int64_t>(1, kPiece / width);
  stream.enqueue([=](ThreadPool& pool) -> keel_status {
    pool.parallel_for(rows, piece, [=](int64_t begin, int64_t end) { body(begin, end - begin); });
    return KEEL_OK;
  });
}

const float* optional_address(const Stream& stream, const keel_tensor* tensor) {
  return tensor == nullptr ? nullptr : address<const float>(stream, *tensor);
}

// ---- swiglu ------------------------------------------------------------------

OpSupport swiglu_query(const keel_op_call& call) {
  return {dense_f32(call) ? "swiglu" : nullptr};
}

void swiglu_run(Stream& stream, const keel_op_call& call, void*) {
  const auto* const x = address<const float>(stream, *call.inputs[0]);
  auto* const y = address<float>(stream, *call.outputs[0]);
  const int64_t width = call.outputs[0]->shape[1];
  enqueue_rows(stream, call.outputs[0]->shape[0], width, [=](int64_t row, int64_t rows) {
    kernels::swiglu_f32(x + row * 2 * width, y + row * width, rows, width);
  });
}

OpSupport swiglu_backward_query(const keel_op_call& call) {
  return {dense_f32(call) ? "swiglu_backward" : nullptr};
}

void swiglu_backward_run(Stream& stream, const keel_op_call& call, void*) {
  const auto* const x = address<const float>(stream, *call.inputs[0]);
  const auto* const dy = address<const float>(stream, *call.inputs[1]);
  auto* const dx = address<float>(stream, *call.outputs[0]);
  const int64_t width = call.inputs[1]->shape[1];
  enqueue_rows(stream, call.inputs[1]->shape[0], width, [=](int64_t row, int64_t rows) {
    kernels::swiglu_backward_f32(x + row * 2 * width, dy + row * width, dx + row * 2 * width, rows,
                                 width);
  });
}

// ---- bias_gelu ---------------------------------------------------------------

OpSupport bias_gelu_query(const keel_op_call& call) {
  return {dense_f32(call) ? "bias_gelu" : nullptr};
}

void bias_gelu_run(Stream& stream, const keel_op_call& call, void*) {
  const bool erf = call.attributes[0].i != 0;
  const auto* const x = address<const float>(stream, *call.inputs[0]);
  const float* const bias = optional_address(stream, call.inputs[1]);
  auto* const y = address<float>(stream, *call.outputs[0]);
  const int64_t width = call.outputs[0]->shape[1];
  enqueue_rows(stream, call.outputs[0]->shape[0], width, [=](int64_t row, int64_t rows) {
    kernels::bias_gelu_f32(erf, x + row * width, bias, y + row * width, rows, width);
  });
}

OpSupport bias_gelu_backward_query(const keel_op_call& call) {
  return {dense_f32(call) ? "bias_gelu_backward" : nullptr};
}

void bias_gelu_backward_run(Stream& stream, const keel_op_call& call, void*) {
  const bool erf = call.attributes[0].i != 0;
  const auto* const x = address<const float>(stream, *call.inputs[0]);
  const float* const bias = optional_address(stream, call.inputs[1]);
  const auto* const dy = address<const float>(stream, *call.inputs[2]);
  auto* const dx = address<float>(stream, *call.outputs[0]);
  const int64_t width = call.outputs[0]->shape[1];
  enqueue_rows(stream, call.outputs[0]->shape[0], width, [=](int64_t row, int64_t rows) {
    kernels::bias_gelu_backward_f32(erf, x + row * width, bias, dy + row * width, dx + row * width,
                                    rows, width);
  });
}

}  // namespace

const Operator kSwigluOperator = {swiglu_query, swiglu_run};
const Operator kSwigluBackwardOperator = {swiglu_backward_query, swiglu_backward_run};
const Operator kBiasGeluOperator = {bias_gelu_query, bias_gelu_run};
const Operator kBiasGeluBackwardOperator = {bias_gelu_backward_query, bias_gelu_backward_run};

}  // namespace keel::cpu
