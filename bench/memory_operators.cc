// SPDX-License-Identifier: Apache-2.0
#include "bench/memory_operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <stdexcept>
#include <utility>

namespace keel::bench {

namespace {

int64_t size_of(keel_dtype dtype) {
  return dtype == KEEL_FLOAT32 ? 4 : 2;
}

keel_dtype other_of(keel_dtype dtype) {
  return dtype == KEEL_FLOAT32 ? KEEL_BFLOAT16 : KEEL_FLOAT32;
}

std::unique_ptr<OpCall> call(keel_op_id op, std::initializer_list<Operand> inputs,
                             std::initializer_list<Operand> outputs,
                             std::initializer_list<Attribute> attributes = {}) {
  return std::unique_ptr<OpCall>(new OpCall(op, inputs, outputs, attributes));
}

std::unique_ptr<OpCall> layer_norm(OpTensors& tensors, keel_dtype dtype, Extents e) {
  const auto x = [&] { return tensors.uniform(dtype, {e.rows, e.columns}); };
  const auto row = [&] { return tensors.uniform(dtype, {e.columns}); };
  const auto statistic = [&] { return tensors.uniform(KEEL_FLOAT32, {e.rows}); };
  return call(KEEL_OP_LAYER_NORM, {x(), row(), row()}, {x(), statistic(), statistic()}, {1e-5});
}

std::unique_ptr<OpCall> layer_norm_backward(OpTensors& tensors, keel_dtype dtype, Extents e) {
  const auto x = [&] { return tensors.uniform(dtype, {e.rows, e.columns}); };
  const auto sum = [&] { return tensors.uniform(KEEL_FLOAT32, {e.columns}); };
  const auto statistic = [&] { return tensors.uniform(KEEL_FLOAT32, {e.rows}); };
  return call(KEEL_OP_LAYER_NORM_BACKWARD,
              {x(), x(), tensors.uniform(dtype, {e.columns}), statistic(), statistic()},
              {x(), sum(), sum()});
}

std::unique_ptr<OpCall> rms_norm(OpTensors& tensors, keel_dtype dtype, Extents e) {
  const auto x = [&] { return tensors.uniform(dtype, {e.rows, e.columns}); };
  return call(KEEL_OP_RMS_NORM, {x(), tensors.uniform(dtype, {e.columns})},
              {x(), tensors.uniform(KEEL_FLOAT32, {e.rows})}, {1e-5});
}

std::unique_ptr<OpCall> rms_norm_backward(OpTensors& tensors, keel_dtype dtype, Extents e) {
  const auto x = [&] { return tensors.uniform(dtype, {e.rows, e.columns}); };
  return call(
      KEEL_OP_RMS_NORM_BACKWARD,
      {x(), x(), tensors.uniform(dtype, {e.columns}), tensors.uniform(KEEL_FLOAT32, {e.rows})},
      {x(), tensors.uniform(KEEL_FLOAT32, {e.columns})});
}

std::unique_ptr<OpCall> softmax(OpTensors& tensors, keel_dtype dtype, Extents e) {
  const auto x = [&] { return tensors.uniform(dtype, {e.rows, e.columns}); };
  return call(KEEL_OP_SOFTMAX, {x(), nullptr}, {x()}, {1.0, 0});
}

std::unique_ptr<OpCall> softmax_backward(OpTensors& tensors, keel_dtype dtype, Extents e) {
  const auto x = [&] { return tensors.uniform(dtype, {e.rows, e.columns}); };
  return call(KEEL_OP_SOFTMAX_BACKWARD, {x(), x()}, {x()}, {1.0});
}

std::unique_ptr<OpCall> cross_entropy(OpTensors& tensors, keel_dtype dtype, Extents e) {
  const auto row = [&] { return tensors.uniform(KEEL_FLOAT32, {e.rows}); };
  return call(KEEL_OP_CROSS_ENTROPY,
              {tensors.uniform(dtype, {e.rows, e.columns}), tensors.labels(e.rows, e.columns)},
              {row(), row()});
}

std::unique_ptr<OpCall> cross_entropy_backward(OpTensors& tensors, keel_dtype dtype, Extents e) {
  const auto logits = [&] { return tensors.uniform(dtype, {e.rows, e.columns}); };
  return call(KEEL_OP_CROSS_ENTROPY_BACKWARD,
              {logits(), tensors.labels(e.rows, e.columns),
               tensors.uniform(KEEL_FLOAT32, {e.rows}, /*low=*/10, /*high=*/11)},
              {logits()}, {1.0 / static_cast<double>(e.rows)});
}

std::unique_ptr<OpCall> gelu(OpTensors& tensors, keel_dtype dtype, Extents e) {
  const auto x = [&] { return tensors.uniform(dtype, {e.rows, e.columns}); };
  return call(KEEL_OP_GELU, {x()}, {x()}, {/*form=*/0});
}

std::unique_ptr<OpCall> gelu_backward(OpTensors& tensors, keel_dtype dtype, Extents e) {
  const auto x = [&] { return tensors.uniform(dtype, {e.rows, e.columns}); };
  return call(KEEL_OP_GELU_BACKWARD, {x(), x()}, {x()}, {/*form=*/0});
}

std::unique_ptr<OpCall> swiglu(OpTensors& tensors, keel_dtype dtype, Extents e) {
  return call(KEEL_OP_SWIGLU, {tensors.uniform(dtype, {e.rows, 2 * e.columns})},
              {tensors.uniform(dtype, {e.rows, e.columns})});
}

std::unique_ptr<OpCall> swiglu_backward(OpTensors& tensors, keel_dtype dtype, Extents e) {
  const auto x = [&] { return tensors.uniform(dtype, {e.rows, 2 * e.columns}); };
  return call(KEEL_OP_SWIGLU_BACKWARD, {x(), tensors.uniform(dtype, {e.rows, e.columns})}, {x()});
}

// In place, as in training.
std::unique_ptr<OpCall> adamw(OpTensors& tensors, keel_dtype dtype, Extents e) {
  const auto x = [&] { return tensors.uniform(dtype, {e.rows, e.columns}); };
  const keel_tensor parameter = x();
  const keel_tensor mean = x();
  const keel_tensor variance = tensors.uniform(dtype, {e.rows, e.columns}, /*low=*/0.5);
  return call(KEEL_OP_ADAMW, {parameter, x(), mean, variance}, {parameter, mean, variance},
              {1e-3, 0.9, 0.999, 1e-8, 0.01, 2, 1.0});
}

std::unique_ptr<OpCall> cast(OpTensors& tensors, keel_dtype dtype, Extents e) {
  return call(KEEL_OP_CAST, {tensors.uniform(dtype, {e.rows, e.columns})},
              {tensors.uniform(other_of(dtype), {e.rows, e.columns})});
}

// One index per table row, each row once.
std::unique_ptr<OpCall> embedding(OpTensors& tensors, keel_dtype dtype, Extents e) {
  const auto x = [&] { return tensors.uniform(dtype, {e.rows, e.columns}); };
  return call(KEEL_OP_EMBEDDING, {x(), tensors.permutation(e.rows)}, {x()}, {/*first=*/0});
}

std::unique_ptr<OpCall> add(OpTensors& tensors, keel_dtype dtype, Extents e) {
  const auto x = [&] { return tensors.uniform(dtype, {e.rows, e.columns}); };
  return call(KEEL_OP_ADD, {x(), x()}, {x()});
}

std::unique_ptr<OpCall> scale(OpTensors& tensors, keel_dtype dtype, Extents e) {
  const auto x = [&] { return tensors.uniform(dtype, {e.rows, e.columns}); };
  return call(KEEL_OP_SCALE, {x()}, {x()}, {0.5});
}

std::unique_ptr<OpCall> axpy(OpTensors& tensors, keel_dtype dtype, Extents e) {
  const auto x = [&] { return tensors.uniform(dtype, {e.rows, e.columns}); };
  return call(KEEL_OP_AXPY, {x(), x()}, {x()}, {0.5});
}

std::unique_ptr<OpCall> elementwise(int64_t function, const keel_tensor& a, Operand b,
                                    const keel_tensor& y) {
  return call(KEEL_OP_ELEMENTWISE, {a, std::move(b), nullptr}, {y},
              {function, /*alpha=*/1.0, 0.0, 0.0, 0.0, /*seed=*/0, /*offset=*/0});
}

std::unique_ptr<OpCall> elementwise_add(OpTensors& tensors, keel_dtype dtype, Extents e) {
  const auto x = [&] { return tensors.uniform(dtype, {e.rows, e.columns}); };
  return elementwise(KEEL_ELEMENTWISE_FUNCTION_ADD, x(), x(), x());
}

std::unique_ptr<OpCall> elementwise_exp(OpTensors& tensors, keel_dtype dtype, Extents e) {
  const auto x = [&] { return tensors.uniform(dtype, {e.rows, e.columns}); };
  return elementwise(KEEL_ELEMENTWISE_FUNCTION_EXP, x(), nullptr, x());
}

// One row for all.
std::unique_ptr<OpCall> elementwise_broadcast(OpTensors& tensors, keel_dtype dtype, Extents e) {
  const auto x = [&] { return tensors.uniform(dtype, {e.rows, e.columns}); };
  keel_tensor row = tensors.uniform(dtype, {1, e.columns});
  row.shape[0] = e.rows;
  row.strides[0] = 0;
  return elementwise(KEEL_ELEMENTWISE_FUNCTION_ADD, x(), row, x());
}

// From rows of twice the length.
std::unique_ptr<OpCall> elementwise_padded(OpTensors& tensors, keel_dtype dtype, Extents e) {
  keel_tensor x = tensors.uniform(dtype, {e.rows, 2 * e.columns});
  x.shape[1] = e.columns;
  return elementwise(KEEL_ELEMENTWISE_FUNCTION_COPY, x, nullptr,
                     tensors.uniform(dtype, {e.rows, e.columns}));
}

std::unique_ptr<OpCall> reduce_rows(OpTensors& tensors, keel_dtype dtype, Extents e) {
  return call(KEEL_OP_REDUCE, {tensors.uniform(dtype, {e.rows, e.columns})},
              {tensors.uniform(dtype, {e.rows, 1})}, {int64_t{KEEL_REDUCE_FUNCTION_SUM}});
}

std::unique_ptr<OpCall> reduce_columns(OpTensors& tensors, keel_dtype dtype, Extents e) {
  return call(KEEL_OP_REDUCE, {tensors.uniform(dtype, {e.rows, e.columns})},
              {tensors.uniform(dtype, {1, e.columns})}, {int64_t{KEEL_REDUCE_FUNCTION_SUM}});
}

std::unique_ptr<OpCall> reduce_all(OpTensors& tensors, keel_dtype dtype, Extents e) {
  return call(KEEL_OP_REDUCE, {tensors.uniform(dtype, {e.rows, e.columns})},
              {tensors.uniform(dtype, {1, 1})}, {int64_t{KEEL_REDUCE_FUNCTION_SUM}});
}

// Whole rows, each once, as index_select takes them.
std::unique_ptr<OpCall> gather(OpTensors& tensors, keel_dtype dtype, Extents e) {
  const auto x = [&] { return tensors.uniform(dtype, {e.rows, e.columns}); };
  keel_tensor index = tensors.permutation(e.rows);
  index.rank = 2;
  index.shape[1] = e.columns;
  index.strides[1] = 0;
  return call(KEEL_OP_GATHER, {x(), index}, {x()}, {/*axis=*/0});
}

constexpr int64_t kWidth = 1024;
constexpr int64_t kVocabulary = 32768;

constexpr MemoryOperator kOperators[] = {
    {"layer_norm", kWidth, 2, 0, layer_norm},
    {"layer_norm_backward", kWidth, 3, 0, layer_norm_backward},
    {"rms_norm", kWidth, 2, 0, rms_norm},
    {"rms_norm_backward", kWidth, 3, 0, rms_norm_backward},
    {"softmax", kWidth, 2, 0, softmax},
    {"softmax_backward", kWidth, 3, 0, softmax_backward},
    {"cross_entropy", kVocabulary, 1, 0, cross_entropy},
    {"cross_entropy_backward", kVocabulary, 2, 0, cross_entropy_backward},
    {"gelu", kWidth, 2, 0, gelu},
    {"gelu_backward", kWidth, 3, 0, gelu_backward},
    {"swiglu", kWidth, 3, 0, swiglu},
    {"swiglu_backward", kWidth, 5, 0, swiglu_backward},
    {"adamw", kWidth, 7, 0, adamw},
    {"cast", kWidth, 1, 1, cast},
    {"embedding", kWidth, 2, 0, embedding},
    {"add", kWidth, 3, 0, add},
    {"scale", kWidth, 2, 0, scale},
    {"axpy", kWidth, 3, 0, axpy},
    {"elementwise_add", kWidth, 3, 0, elementwise_add},
    {"elementwise_exp", kWidth, 2, 0, elementwise_exp},
    {"elementwise_broadcast", kWidth, 2, 0, elementwise_broadcast},
    {"elementwise_padded", kWidth, 2, 0, elementwise_padded},
    {"reduce_rows", kWidth, 1, 0, reduce_rows},
    {"reduce_columns", kWidth, 1, 0, reduce_columns},
    {"reduce_all", kWidth, 1, 0, reduce_all},
    {"gather", kWidth, 2, 0, gather},
};

}  // namespace

std::string Extents::text() const {
  return fmt::format("{}x{}", rows, columns);
}

Extents MemoryOperator::extents(keel_dtype dtype, int64_t tensor_bytes) const {
  return {std::max<int64_t>(1, tensor_bytes / size_of(dtype) / columns), columns};
}

double MemoryOperator::bytes(keel_dtype dtype, Extents extents) const {
  const double of_element = streams * static_cast<double>(size_of(dtype)) +
                            streams_of_other * static_cast<double>(size_of(other_of(dtype)));
  return of_element * static_cast<double>(extents.rows * extents.columns);
}

const MemoryOperator& memory_operator(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kOperators), std::end(kOperators),
                   [&](const MemoryOperator& each) { return each.name == name; });
  if (found == std::end(kOperators)) throw std::logic_error(fmt::format("no operator {}", name));
  return *found;
}

const char* name_of(keel_dtype dtype) {
  return dtype == KEEL_FLOAT32 ? "float32" : "bfloat16";
}

}  // namespace keel::bench
