// SPDX-License-Identifier: Apache-2.0
// Cases of gradient norms and clipping.
#include <limits>
#include <string>
#include <utility>

#include "ops/testing/case_builder.h"
#include "ops/testing/case_generators.h"

namespace keel::ops {
namespace {

using D = Distribution;
using Shape = std::vector<int64_t>;

// Rank 0 and 4, empty, one element, primes, near powers of two, and more than one block of any
// kernel.
const Shape kShapes[] = {{},        {0},    {1},          {7},     {4, 0, 3}, {255},
                         {1025, 3}, {8193}, {2, 3, 5, 7}, {65536}, {262147}};

Case squares_case(uint32_t combination, CaseTensor x, CaseTensor before, const std::string& name) {
  const std::string suffix = shape_text(x.shape) + (before.present ? "/before" : "") + name;
  return make_case(KEEL_OP_SUM_OF_SQUARES, combination, suffix, {std::move(x), std::move(before)},
                   {dense(KEEL_FLOAT32, {}, D::kNaN), dense(KEEL_INT32, {}, D::kNaN)});
}

Case clip_case(uint32_t combination, CaseTensor g, CaseTensor sum, double max_norm,
               const std::string& name = "") {
  CaseTensor g_out = dense(g.dtype, g.shape, D::kNaN);
  const std::string suffix = shape_text(g.shape) + name;
  return make_case(KEEL_OP_CLIP, combination, suffix, {std::move(g), std::move(sum)},
                   {std::move(g_out)}, {float_attribute(max_norm)});
}

Case clip_case(uint32_t combination, CaseTensor g, D sum, double max_norm,
               const std::string& name = "") {
  return clip_case(combination, std::move(g), dense(KEEL_FLOAT32, {}, sum), max_norm, name);
}

}  // namespace

std::vector<Case> sum_of_squares_cases() {
  std::vector<Case> cases;
  const auto before = [](D distribution) { return dense(KEEL_FLOAT32, {}, distribution); };
  for (uint32_t c = 0; c < find_schema(KEEL_OP_SUM_OF_SQUARES)->dtypes.size(); ++c) {
    const keel_dtype dtype = find_schema(KEEL_OP_SUM_OF_SQUARES)->dtypes[c].inputs[0];
    const auto add = [&](CaseTensor x, const char* name) {
      cases.push_back(squares_case(c, std::move(x), absent(), name));
    };
    for (const Shape& shape : kShapes) add(dense(dtype, shape), "");
    for (const Shape& shape : {Shape{0}, Shape{31, 17}, Shape{65537}}) {
      cases.push_back(squares_case(c, dense(dtype, shape), before(D::kPositive), ""));
    }
    const Case chained = squares_case(c, dense(dtype, {1009}), before(D::kPositive), "");
    cases.push_back(in_place(chained, 0, 1));
    cases.push_back(squares_case(c, dense(dtype, {65537}), before(D::kNaN), "_nan"));
    add(dense(dtype, {300007}, D::kPositive), "/growing");
    add(dense(dtype, {1009}, D::kSubnormal), "/subnormal");
    add(dense(dtype, {1009}, D::kSpecial), "/special");
    add(dense(dtype, {7}, D::kNaN), "/nan");
    // An infinite sum of finite elements does not set found; an infinite |before| of the next call
    // does.
    if (dtype != KEEL_FLOAT16) add(constant(dtype, {1009}, 0x1p100), "/huge");
    cases.push_back(
        squares_case(c, dense(dtype, {31, 17}),
                     constant(KEEL_FLOAT32, {}, std::numeric_limits<double>::infinity()), "_inf"));
    add(dense(dtype, {65537}, D::kNonFinite), "/non_finite");
    if (dtype != KEEL_FLOAT16) add(dense(dtype, {1009}, D::kWide), "/wide");
    add(shifted(dense(dtype, {8193}), 3), "/unaligned");
    add(padded(dense(dtype, {31, 17}), 3), "/padded");
    add(transposed(dense(dtype, {31, 17})), "/transposed");
    add(broadcast(dense(dtype, {31, 17})), "/broadcast");
  }
  return cases;
}

std::vector<Case> clip_cases() {
  std::vector<Case> cases;
  for (uint32_t c = 0; c < find_schema(KEEL_OP_CLIP)->dtypes.size(); ++c) {
    const keel_dtype dtype = find_schema(KEEL_OP_CLIP)->dtypes[c].inputs[0];
    const auto add = [&](CaseTensor g, D sum, double max_norm, const char* name = "") {
      cases.push_back(clip_case(c, std::move(g), sum, max_norm, name));
    };
    // Norms from 0.1 to 1.
    for (const Shape& shape : kShapes) add(dense(dtype, shape), D::kPositive, 0.05);
    cases.push_back(in_place(clip_case(c, dense(dtype, {31, 17}), D::kPositive, 0.05), 0, 0));
    add(dense(dtype, {1009}), D::kPositive, 10, "/within");
    add(dense(dtype, {1009}), D::kPositive, 0, "/to_nothing");
    add(dense(dtype, {1009}), D::kNaN, 1, "/norm_is_nan");
    const auto add_sum = [&](double sum, double max_norm, const char* name) {
      cases.push_back(clip_case(c, dense(dtype, {1009}, D::kNonFinite),
                                constant(KEEL_FLOAT32, {}, sum), max_norm, name));
    };
    add_sum(std::numeric_limits<double>::infinity(), 1, "/norm_is_infinite");
    add_sum(0, 1, "/norm_is_zero");
    // Comparable to the epsilon that is added to the norm.
    add_sum(1e-13, 1e-6, "/norm_is_small");
    add_sum(1e30, 1e14, "/norm_is_large");
    add(dense(dtype, {1009}, D::kNonFinite), D::kPositive, 0.05, "/non_finite");
    if (dtype != KEEL_FLOAT16) add(dense(dtype, {1009}, D::kWide), D::kPositive, 0.05, "/wide");
    add(shifted(dense(dtype, {8193}), 3), D::kPositive, 0.05, "/unaligned");
    add(padded(dense(dtype, {31, 17}), 3), D::kPositive, 0.05, "/padded");
  }
  return cases;
}

}  // namespace keel::ops
