// SPDX-License-Identifier: Apache-2.0
// Cases of elementwise by layout.
#include "ops/testing/elementwise_cases.h"

namespace keel::ops::elementwise {

// One strided case: a transposed, b one row for all, c padded, y padded.
void add_strided(ElementwiseCases* cases, const Function& function, uint32_t combination) {
  Case* const each = cases->add(function, combination, "strided", {31, 17});
  if (function.operands > 0) each->inputs[0] = transposed(each->inputs[0]);
  if (function.operands > 1) each->inputs[1] = broadcast(each->inputs[1]);
  if (function.operands > 2) each->inputs[2] = padded(each->inputs[2], 3);
  each->outputs[0] = padded(each->outputs[0], 5);
  each->strided = true;
}

// Layouts that collapse to one axis, to several, or to none.
void add_layouts(ElementwiseCases* cases, const Function& function, uint32_t combination) {
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{4, 0, 3}, Shape{1025, 3},
                             Shape{2, 1, 3, 1, 2, 1, 2, 3}, Shape{65537}}) {
    cases->add(function, combination, "", shape);
  }
  const Shape shape = {2, 3, 2, 5, 2, 3, 1, 7};
  Case* each = cases->add(function, combination, "reversed", shape);
  for (CaseTensor& input : each->inputs) {
    if (input.present) input = transposed(input);
  }
  each->strided = true;
  each = cases->add(function, combination, "output_reversed", shape);
  each->outputs[0] = transposed(each->outputs[0]);
  each->strided = true;
  each = cases->add(function, combination, "broadcast_axes", shape);
  for (uint32_t i = 0; i < function.operands; ++i) {
    for (size_t axis = i; axis < shape.size(); axis += 3) each->inputs[i].strides[axis] = 0;
  }
  each->strided = true;
  each = cases->add(function, combination, "scalars", {33, 65});
  for (uint32_t i = 1; i < function.operands; ++i) each->inputs[i].strides = {0, 0};
  each->strided = function.operands > 1;
  each = cases->add(function, combination, "columns", {67, 33});
  if (function.operands > 1) each->inputs[1].strides = {1, 0};
  each->strided = function.operands > 1;
  each = cases->add(function, combination, "unaligned", {1031});
  for (uint32_t i = 0; i < function.operands; ++i) {
    each->inputs[i] = shifted(each->inputs[i], 2 * i + 1);
  }
  each->outputs[0] = shifted(each->outputs[0], 3);
  each = cases->add(function, combination, "every_third", {257});
  for (uint32_t i = 0; i < function.operands; ++i) each->inputs[i].strides = {3};
  each->outputs[0].strides = {3};
  each->strided = true;
  for (uint32_t i = 0; i < function.operands; ++i) {
    const DtypeCombination& dtypes = cases->schema().dtypes[combination];
    if (dtypes.inputs[i] != dtypes.outputs[0]) continue;
    each = cases->add(function, combination, "", {31, 19});
    *each = in_place(std::move(*each), 0, i);
  }
}

// Extents that no power of two divides, beyond those that 16 bits count: kernels find an element's
// place by divisions.
void add_far_places(ElementwiseCases* cases, const Function& function) {
  const auto add = [&](const char* suffix, const Shape& shape, const auto& lay_out) {
    Case* const each = cases->add(function, kF32, suffix, shape);
    lay_out(each);
    each->strided = true;
    each->profile = Profile::kQuick;
  };
  add("a_transposed", {21'851, 3},
      [](Case* each) { each->inputs[0] = transposed(each->inputs[0]); });
  add("a_padded", {3, 21'851}, [](Case* each) { each->inputs[0] = padded(each->inputs[0], 3); });
  add("y_padded", {65'601, 1}, [](Case* each) { each->outputs[0] = padded(each->outputs[0], 1); });
  add("y_transposed", {641, 103},
      [](Case* each) { each->outputs[0] = transposed(each->outputs[0]); });
}

// Each layout in each combination of dtypes: kernels may choose units by the size of an element,
// and by the alignment of any tensor.
void add_layouts_of_dtypes(ElementwiseCases* cases, uint32_t combination) {
  constexpr int64_t kTried[] = {KEEL_ELEMENTWISE_FUNCTION_CLAMP, KEEL_ELEMENTWISE_FUNCTION_WHERE,
                                KEEL_ELEMENTWISE_FUNCTION_LT, KEEL_ELEMENTWISE_FUNCTION_ADD};
  const DtypeCombination& dtypes = cases->schema().dtypes[combination];
  const bool from_truth = dtypes.inputs[0] == KEEL_UINT8 && dtypes.inputs[1] != KEEL_UINT8;
  const bool to_truth = dtypes.outputs[0] == KEEL_UINT8 && dtypes.inputs[0] != KEEL_UINT8;
  const bool truncates = dtypes.outputs[0] == KEEL_INT64 && dtypes.inputs[1] == KEEL_FLOAT32;
  const Function& function = kFunctions[kTried[truncates ? 3 : to_truth ? 2 : from_truth ? 1 : 0]];
  const Shape shapes[] = {{31, 17}, {3, 1027}, {67, 3}, {5, 16, 9}, {129, 64}};
  size_t turn = combination;
  const auto next = [&]() -> const Shape& { return shapes[turn++ % std::size(shapes)]; };
  const auto add = [&](const std::string& suffix, const Shape& shape) {
    return cases->add(function, combination, suffix, shape);
  };
  for (uint32_t i = 0; i < function.operands; ++i) {
    const std::string name = operand_name(i);
    Case* each = add(name + "_unaligned", {1031});
    each->inputs[i] = shifted(each->inputs[i], 1 + combination % 3);
    each = add(name + "_transposed", next());
    each->inputs[i] = transposed(each->inputs[i]);
    each->strided = true;
    each = add(name + "_padded", next());
    each->inputs[i] = padded(each->inputs[i], 1 + i);
    each->strided = true;
    each = add(name + "_one_row", next());
    each->inputs[i] = broadcast(each->inputs[i]);
    each->strided = true;
    each = add(name + "_one_column", next());
    each->inputs[i].strides.back() = 0;
    each->strided = true;
  }
  Case* each = add("y_unaligned", {1031});
  each->outputs[0] = shifted(each->outputs[0], 1 + combination % 3);
  each = add("y_padded", next());
  each->outputs[0] = padded(each->outputs[0], 3);
  each->strided = true;
  each = add("y_transposed", next());
  each->outputs[0] = transposed(each->outputs[0]);
  each->strided = true;
  // A number in place of each tensor, beside tensors with gaps; of tensors of one dtype, since a
  // number has none.
  if (dtypes.inputs[1] != dtypes.inputs[0] || dtypes.inputs[2] != dtypes.inputs[0]) return;
  for (uint32_t i = 0; i < function.operands; ++i) {
    Numbers numbers;
    numbers.a = numbers.b = numbers.c = 1;
    each = cases->add(function, combination, operand_name(i) + "_number/strided", {31, 17}, numbers,
                      1U << i);
    for (CaseTensor& input : each->inputs) {
      if (input.present) input = padded(input, 3);
    }
    each->strided = true;
  }
}

}  // namespace keel::ops::elementwise
