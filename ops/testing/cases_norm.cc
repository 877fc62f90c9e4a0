// SPDX-License-Identifier: Apache-2.0
// Cases of row normalisations and softmax.
#include <string>
#include <utility>

#include "ops/testing/case_builder.h"
#include "ops/testing/case_generators.h"

namespace keel::ops {
namespace {

using D = Distribution;
using Shape = std::vector<int64_t>;

struct RowsOptions {
  D x = D::kNormal;
  double eps = 1e-5;
  bool beta = true;
  int64_t padding = 0;  // between the rows of all tensors with rows
  uint64_t shift = 0;   // elements before each tensor's first
  const char* name = "";
};

// One element; no rows; ranks 1 and 3; primes, typical widths of models, and rows longer than a
// thread group holds; more rows than one pass over the columns takes.
const Shape kShapes[] = {{1, 1},   {7, 13},   {0, 5},     {67},       {2, 3, 5},  {33, 129},
                         {5, 768}, {257, 64}, {2, 10007}, {1, 65537}, {10007, 3}, {64, 2048}};
const Shape kShape = {61, 68};  // for variants; rows are aligned

Shape rows_of(const Shape& shape) {
  return {shape.begin(), shape.end() - 1};
}

CaseTensor placed(CaseTensor tensor, const RowsOptions& options) {
  if (options.padding != 0 && tensor.shape.size() > 1) {
    tensor = padded(std::move(tensor), options.padding);
  }
  return shifted(std::move(tensor), options.shift);
}

CaseTensor input(keel_dtype dtype, Shape shape, D distribution, const RowsOptions& options) {
  const int64_t columns = shape.back();
  return placed(dense(dtype, std::move(shape), distribution, columns), options);
}

// One number per row.
CaseTensor statistic(Shape shape, D distribution, const RowsOptions& options) {
  return placed(dense(KEEL_FLOAT32, std::move(shape), distribution, /*bound=*/1), options);
}

CaseTensor output(keel_dtype dtype, Shape shape, const RowsOptions& options) {
  return placed(dense(dtype, std::move(shape), D::kNaN), options);
}

Case layer_norm_case(uint32_t combination, const Shape& shape, const RowsOptions& options = {}) {
  const DtypeCombination& dtypes = find_schema(KEEL_OP_LAYER_NORM)->dtypes[combination];
  const Shape row = {shape.back()};
  return make_case(
      KEEL_OP_LAYER_NORM, combination, shape_text(shape) + options.name,
      {input(dtypes.inputs[0], shape, options.x, options),
       input(dtypes.inputs[1], row, D::kNormal, options),
       options.beta ? input(dtypes.inputs[2], row, D::kNormal, options) : absent()},
      {output(dtypes.outputs[0], shape, options), output(KEEL_FLOAT32, rows_of(shape), options),
       output(KEEL_FLOAT32, rows_of(shape), options)},
      {float_attribute(options.eps)});
}

Case rms_norm_case(uint32_t combination, const Shape& shape, const RowsOptions& options = {}) {
  const DtypeCombination& dtypes = find_schema(KEEL_OP_RMS_NORM)->dtypes[combination];
  return make_case(
      KEEL_OP_RMS_NORM, combination, shape_text(shape) + options.name,
      {input(dtypes.inputs[0], shape, options.x, options),
       input(dtypes.inputs[1], {shape.back()}, D::kNormal, options)},
      {output(dtypes.outputs[0], shape, options), output(KEEL_FLOAT32, rows_of(shape), options)},
      {float_attribute(options.eps)});
}

// The statistics are arbitrary numbers: the gradient is defined for all of them.
Case layer_norm_backward_case(uint32_t combination, const Shape& shape,
                              const RowsOptions& options = {}) {
  const DtypeCombination& dtypes = find_schema(KEEL_OP_LAYER_NORM_BACKWARD)->dtypes[combination];
  const Shape row = {shape.back()};
  const bool is_far = options.x == D::kFar || options.x == D::kOffset;
  return make_case(KEEL_OP_LAYER_NORM_BACKWARD, combination, shape_text(shape) + options.name,
                   {input(dtypes.inputs[0], shape, D::kNormal, options),
                    input(dtypes.inputs[1], shape, options.x, options),
                    input(dtypes.inputs[2], row, D::kNormal, options),
                    statistic(rows_of(shape), is_far ? options.x : D::kUniform, options),
                    statistic(rows_of(shape), D::kPositive, options)},
                   {output(dtypes.outputs[0], shape, options), output(KEEL_FLOAT32, row, options),
                    output(KEEL_FLOAT32, row, options)});
}

Case rms_norm_backward_case(uint32_t combination, const Shape& shape,
                            const RowsOptions& options = {}) {
  const DtypeCombination& dtypes = find_schema(KEEL_OP_RMS_NORM_BACKWARD)->dtypes[combination];
  const Shape row = {shape.back()};
  return make_case(KEEL_OP_RMS_NORM_BACKWARD, combination, shape_text(shape) + options.name,
                   {input(dtypes.inputs[0], shape, D::kNormal, options),
                    input(dtypes.inputs[1], shape, options.x, options),
                    input(dtypes.inputs[2], row, D::kNormal, options),
                    statistic(rows_of(shape), D::kPositive, options)},
                   {output(dtypes.outputs[0], shape, options), output(KEEL_FLOAT32, row, options)});
}

// Cases shared by all four, for each dtype combination, by |make(combination, shape, options)|.
template <typename Make>
std::vector<Case> rows_cases(keel_op_id op, const Make& make) {
  std::vector<Case> cases;
  const Schema& schema = *find_schema(op);
  for (uint32_t c = 0; c < schema.dtypes.size(); ++c) {
    for (const Shape& shape : kShapes) cases.push_back(make(c, shape, RowsOptions{}));
    const auto add = [&](const RowsOptions& options) { cases.push_back(make(c, kShape, options)); };
    add({.x = D::kSomeNaN, .name = "/some_nan"});
    add({.x = D::kSubnormal, .name = "/subnormal"});
    add({.x = D::kFar, .name = "/far"});
    // The deviation is as small as the rounding of the row's sum.
    for (const Shape& shape : {Shape{61, 3}, kShape, Shape{24, 1021}, Shape{3, 65537}}) {
      cases.push_back(make(c, shape, {.x = D::kOffset, .name = "/offset"}));
    }
    add({.padding = 4, .name = "/padded"});
    add({.shift = 1, .name = "/unaligned"});
    add({.x = D::kZeroes, .name = "/zeroes"});
    // With so few columns most rows have no NaN and no infinity.
    cases.push_back(make(c, {61, 5}, {.x = D::kNonFinite, .name = "/non_finite"}));
    cases.push_back(in_place(make(c, kShape, RowsOptions{}), 0, 0));
    cases.push_back(make(c, {3, 10007}, {.x = D::kPositive, .name = "/growing"}));
  }
  return cases;
}

// Adds cases for forward passes only.
template <typename Make>
void add_forward_cases(keel_op_id op, const Make& make, std::vector<Case>* cases) {
  for (uint32_t c = 0; c < find_schema(op)->dtypes.size(); ++c) {
    const auto add = [&](const RowsOptions& options) {
      cases->push_back(make(c, kShape, options));
    };
    add({.x = D::kNonFinite, .name = "/non_finite"});
    add({.eps = 0, .name = "/no_eps"});
    // Division by 0: NaN, and no deviation is infinite.
    add({.x = D::kZeroes, .eps = 0, .name = "/zeroes_no_eps"});
    add({.eps = 3, .name = "/large_eps"});
    // Out of float16's range.
    if (c == 0) add({.x = D::kWide, .name = "/wide"});
    if (find_schema(op)->dtypes[c].inputs[0] == KEEL_FLOAT16) continue;
    for (const Shape& shape : {kShape, Shape{7, 10007}}) {
      cases->push_back(make(c, shape, {.x = D::kHuge, .name = "/huge"}));
      cases->push_back(make(c, shape, {.x = D::kTiny, .eps = 0, .name = "/tiny_no_eps"}));
    }
  }
}

struct SoftmaxOptions {
  D x = D::kLogits;
  double scale = 1;
  bool causal = false;
  // A mask of |m,n| has no leading axes.
  enum { kNoMask, kMaskOfAMatrix, kMaskOfAll } mask = kNoMask;
  int64_t padding = 0;
  uint64_t shift = 0;
  const char* name = "";
};

Case softmax_case(uint32_t combination, const Shape& shape, const SoftmaxOptions& options = {}) {
  const keel_dtype dtype = find_schema(KEEL_OP_SOFTMAX)->dtypes[combination].inputs[0];
  const auto place = [&](CaseTensor tensor) {
    if (options.padding != 0) tensor = padded(std::move(tensor), options.padding);
    return shifted(std::move(tensor), options.shift);
  };
  CaseTensor mask = absent();
  if (options.mask != SoftmaxOptions::kNoMask) {
    const bool is_of_all = options.mask == SoftmaxOptions::kMaskOfAll;
    mask = place(dense(KEEL_UINT8, is_of_all ? shape : Shape{shape.end() - 2, shape.end()},
                       D::kIndices, /*bound=*/2));
  }
  return make_case(KEEL_OP_SOFTMAX, combination, shape_text(shape) + options.name,
                   {place(dense(dtype, shape, options.x, shape.back())), std::move(mask)},
                   {place(dense(dtype, shape, D::kNaN))},
                   {float_attribute(options.scale), int_attribute(options.causal ? 1 : 0)});
}

Case softmax_backward_case(uint32_t combination, const Shape& shape, double scale,
                           const RowsOptions& options = {}) {
  const keel_dtype dtype = find_schema(KEEL_OP_SOFTMAX_BACKWARD)->dtypes[combination].inputs[0];
  return make_case(
      KEEL_OP_SOFTMAX_BACKWARD, combination, shape_text(shape) + options.name,
      {input(dtype, shape, D::kPositive, options), input(dtype, shape, options.x, options)},
      {output(dtype, shape, options)}, {float_attribute(scale)});
}

}  // namespace

std::vector<Case> layer_norm_cases() {
  std::vector<Case> cases = rows_cases(KEEL_OP_LAYER_NORM, layer_norm_case);
  add_forward_cases(KEEL_OP_LAYER_NORM, layer_norm_case, &cases);
  for (uint32_t c = 0; c < find_schema(KEEL_OP_LAYER_NORM)->dtypes.size(); ++c) {
    cases.push_back(layer_norm_case(c, kShape, {.beta = false, .name = "/no_beta"}));
    cases.push_back(layer_norm_case(c, {3, 10007}, {.beta = false, .name = "/no_beta"}));
  }
  return cases;
}

std::vector<Case> layer_norm_backward_cases() {
  return rows_cases(KEEL_OP_LAYER_NORM_BACKWARD, layer_norm_backward_case);
}

std::vector<Case> rms_norm_cases() {
  std::vector<Case> cases = rows_cases(KEEL_OP_RMS_NORM, rms_norm_case);
  add_forward_cases(KEEL_OP_RMS_NORM, rms_norm_case, &cases);
  return cases;
}

std::vector<Case> rms_norm_backward_cases() {
  return rows_cases(KEEL_OP_RMS_NORM_BACKWARD, rms_norm_backward_case);
}

std::vector<Case> softmax_cases() {
  using O = SoftmaxOptions;
  const Shape shapes[] = {{1, 1},       {0, 7, 5},   {2, 5, 0},     {2, 3, 5, 7},
                          {3, 33, 129}, {2, 64, 64}, {2, 3, 10007}, {1, 1, 65537}};
  std::vector<Case> cases;
  for (uint32_t c = 0; c < find_schema(KEEL_OP_SOFTMAX)->dtypes.size(); ++c) {
    for (const Shape& shape : shapes) cases.push_back(softmax_case(c, shape));
    const auto add = [&](const SoftmaxOptions& options) {
      cases.push_back(softmax_case(c, {3, 31, 44}, options));
    };
    add({.scale = 0.125, .name = "/scaled"});
    add({.scale = -1.5, .name = "/negative_scale"});
    add({.scale = 0, .name = "/no_scale"});
    add({.causal = true, .name = "/causal"});
    add({.mask = O::kMaskOfAMatrix, .name = "/mask"});
    add({.mask = O::kMaskOfAll, .name = "/mask_of_all"});
    add({.scale = 0.3, .causal = true, .mask = O::kMaskOfAll, .name = "/causal_mask"});
    add({.x = D::kMaskedLogits, .name = "/masked"});
    add({.x = D::kFar, .name = "/far"});
    add({.x = D::kOffsetLogits, .name = "/offset"});
    cases.push_back(softmax_case(c, {2, 4, 10007}, {.x = D::kOffsetLogits, .name = "/offset"}));
    add({.x = D::kSomeNaN, .mask = O::kMaskOfAMatrix, .name = "/some_nan"});
    add({.x = D::kNonFinite, .causal = true, .name = "/non_finite"});
    add({.x = D::kSubnormal, .name = "/subnormal"});
    add({.mask = O::kMaskOfAll, .padding = 4, .name = "/padded"});
    add({.mask = O::kMaskOfAMatrix, .shift = 1, .name = "/unaligned"});
    cases.push_back(in_place(softmax_case(c, {3, 31, 44}, {.mask = O::kMaskOfAMatrix}), 0, 0));
    add({.x = D::kZeroes, .scale = -1.5, .name = "/zeroes"});
    cases.push_back(softmax_case(c, {2, 67, 2}, {.x = D::kNonFinite, .name = "/non_finite"}));
    // Fully hidden rows: the first rows of a tall matrix; and some rows if few columns are masked.
    cases.push_back(softmax_case(c, {2, 44, 31}, {.causal = true, .name = "/causal"}));
    cases.push_back(softmax_case(c, {2, 67, 2}, {.mask = O::kMaskOfAll, .name = "/mask"}));
    cases.push_back(softmax_case(c, {2, 67, 2}, {.x = D::kMaskedLogits, .name = "/masked"}));
    cases.push_back(softmax_case(c, {2, 3, 10007}, {.causal = true, .name = "/causal"}));
    cases.push_back(softmax_case(c, {2, 3, 10007}, {.mask = O::kMaskOfAMatrix, .name = "/mask"}));
  }
  return cases;
}

std::vector<Case> softmax_backward_cases() {
  const Shape shapes[] = {{1},          {0, 7, 5},   {2, 5, 0},     {2, 3, 5, 7},
                          {3, 33, 129}, {2, 64, 64}, {2, 3, 10007}, {1, 65537}};
  std::vector<Case> cases;
  for (uint32_t c = 0; c < find_schema(KEEL_OP_SOFTMAX_BACKWARD)->dtypes.size(); ++c) {
    for (const Shape& shape : shapes) cases.push_back(softmax_backward_case(c, shape, 1));
    const auto add = [&](double scale, const RowsOptions& options) {
      cases.push_back(softmax_backward_case(c, {3, 31, 44}, scale, options));
    };
    add(-0.125, {.name = "/scaled"});
    add(1, {.x = D::kSomeNaN, .name = "/some_nan"});
    add(1, {.x = D::kSubnormal, .name = "/subnormal"});
    add(1, {.x = D::kOffset, .name = "/offset"});
    add(1, {.padding = 4, .name = "/padded"});
    add(1, {.shift = 1, .name = "/unaligned"});
    cases.push_back(in_place(softmax_backward_case(c, {3, 31, 44}, 0.5), 0, 1));
    add(1, {.x = D::kZeroes, .name = "/zeroes"});
    cases.push_back(
        softmax_backward_case(c, {3, 31, 7}, 0.5, {.x = D::kNonFinite, .name = "/non_finite"}));
  }
  return cases;
}

}  // namespace keel::ops
