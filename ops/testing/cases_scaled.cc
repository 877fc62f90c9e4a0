// SPDX-License-Identifier: Apache-2.0
// Cases of casts with a scale.
#include <utility>

#include "ops/testing/case_builder.h"
#include "ops/testing/case_generators.h"

namespace keel::ops {
namespace {

using D = Distribution;
using Shape = std::vector<int64_t>;

const Shape kShapes[] = {{},           {0},     {1},       {7},
                         {4, 0, 3},    {255},   {1025, 3}, {2, 1, 3, 1, 2, 1, 2, 3},
                         {2, 3, 5, 7}, {65537}, {262147}};

Case scaled_case(uint32_t combination, CaseTensor x, D scale, const std::string& name = "") {
  const DtypeCombination& dtypes = find_schema(KEEL_OP_CAST_SCALED)->dtypes[combination];
  const std::string text = shape_text(x.shape) + name;
  CaseTensor y = dense(dtypes.outputs[0], x.shape, D::kNaN);
  return make_case(KEEL_OP_CAST_SCALED, combination, text,
                   {std::move(x), dense(KEEL_FLOAT32, {}, scale)},
                   {std::move(y), dense(KEEL_FLOAT32, {}, D::kNaN)});
}

}  // namespace

std::vector<Case> cast_scaled_cases() {
  std::vector<Case> cases;
  const auto dtypes = find_schema(KEEL_OP_CAST_SCALED)->dtypes;
  for (uint32_t c = 0; c < dtypes.size(); ++c) {
    const keel_dtype dtype = dtypes[c].inputs[0];
    const auto add = [&](CaseTensor x, D scale, const char* name = "") {
      cases.push_back(scaled_case(c, std::move(x), scale, name));
    };
    for (const Shape& shape : kShapes) add(dense(dtype, shape, D::kLogits), D::kPositive);
    const Shape shape = {1009};
    add(dense(dtype, shape, D::kEighths), D::kPowerOfTwo, "/ties");
    add(dense(dtype, shape, D::kTies), D::kPowerOfTwo, "/ties_of_16_bits");
    add(dense(dtype, shape, D::kWide), D::kPositive, "/wide");
    add(dense(dtype, shape, D::kWide), D::kWide, "/wide_scale");
    add(dense(dtype, shape, D::kSubnormal), D::kPowerOfTwo, "/subnormal");
    add(dense(dtype, shape, D::kSpecial), D::kPowerOfTwo, "/special");
    add(dense(dtype, shape, D::kNonFinite), D::kPositive, "/non_finite");
    add(dense(dtype, {65537}, D::kSomeNaN), D::kPositive, "/some_nan");
    add(dense(dtype, {7}, D::kNaN), D::kPositive, "/nan");
    add(dense(dtype, shape), D::kNaN, "/scale_is_nan");
    const CaseTensor matrix = dense(dtype, {31, 17}, D::kLogits);
    add(shifted(matrix, 3), D::kPositive, "/x_unaligned");
    Case unaligned = scaled_case(c, matrix, D::kPositive, "/y_unaligned");
    unaligned.outputs[0] = shifted(unaligned.outputs[0], 1);
    cases.push_back(std::move(unaligned));
    add(padded(matrix, 3), D::kPositive, "/x_padded");
    // Aligned rows in several blocks; rows of one element; rows along two axes.
    add(padded(dense(dtype, {129, 1024}, D::kLogits), 64), D::kPositive, "/x_padded");
    // An aligned first row of whole vectors; the gap leaves the next rows unaligned.
    add(padded(dense(dtype, {33, 64}, D::kLogits), 3), D::kPositive, "/x_padded");
    add(padded(dense(dtype, {1009, 1}, D::kLogits), 2), D::kPositive, "/x_padded");
    add(padded(dense(dtype, {3, 5, 7}, D::kLogits), 2), D::kPositive, "/x_padded");
    add(transposed(matrix), D::kPositive, "/x_transposed");
    add(broadcast(matrix), D::kPositive, "/x_broadcast");
  }
  return cases;
}

}  // namespace keel::ops
