// SPDX-License-Identifier: Apache-2.0
// Cases of batched products.
#include <string>
#include <utility>

#include "ops/testing/case_builder.h"
#include "ops/testing/case_generators.h"

namespace keel::ops {
namespace {

using D = Distribution;
using Shape = std::vector<int64_t>;

struct BatchOptions {
  double alpha = 1;
  double beta = 0;
  D distribution = D::kNormal;
  bool a_is_zero = false;
  int64_t padding = 0;       // between the rows of a, b and c
  bool interleaved = false;  // by rows: the first rows of all matrices, then the second, ...
  bool one_a = false;        // one matrix shared by all products
  bool one_b = false;
  uint64_t shift = 0;  // elements before each tensor's first
  const char* name = "";
};

// Rank 3, stored as [rows, batch, columns].
CaseTensor interleaved(CaseTensor tensor) {
  tensor.strides = {tensor.shape[2], tensor.shape[0] * tensor.shape[2], 1};
  return tensor;
}

Case batched_case(uint32_t combination, bool trans_a, bool trans_b, int64_t batch, int64_t m,
                  int64_t n, int64_t k, const BatchOptions& options = {}) {
  const DtypeCombination& dtypes = find_schema(KEEL_OP_BATCHED_MATMUL)->dtypes[combination];
  const auto place = [&](CaseTensor tensor, bool one) {
    if (options.padding != 0) tensor = padded(std::move(tensor), options.padding);
    if (options.interleaved) tensor = interleaved(std::move(tensor));
    if (one) tensor = broadcast(std::move(tensor));
    return shifted(std::move(tensor), options.shift);
  };
  std::string suffix = std::string(trans_a ? "t" : "n") + (trans_b ? "t" : "n") + "/b" +
                       std::to_string(batch) + "_m" + std::to_string(m) + "_n" + std::to_string(n) +
                       "_k" + std::to_string(k);
  if (*options.name != '\0') suffix += std::string("/") + options.name;
  const Shape a = trans_a ? Shape{batch, k, m} : Shape{batch, m, k};
  const Shape b = trans_b ? Shape{batch, n, k} : Shape{batch, k, n};
  return make_case(
      KEEL_OP_BATCHED_MATMUL, combination, suffix,
      {place(dense(dtypes.inputs[0], a, options.a_is_zero ? D::kZeroes : options.distribution),
             options.one_a),
       place(dense(dtypes.inputs[1], b, options.distribution), options.one_b)},
      {place(dense(dtypes.outputs[0], {batch, m, n}, options.beta == 0 ? D::kNaN : D::kNormal),
             false)},
      {int_attribute(trans_a ? 1 : 0), int_attribute(trans_b ? 1 : 0),
       float_attribute(options.alpha), float_attribute(options.beta)});
}

}  // namespace

std::vector<Case> batched_matmul_cases() {
  struct Extents {
    int64_t batch, m, n, k;
  };
  // One element; one product; vectors; below, at and just above kernels' tile sizes; many small
  // products; each extent zero.
  const Extents extents[] = {{1, 1, 1, 1},    {1, 33, 65, 17}, {3, 1, 129, 64}, {3, 129, 1, 63},
                             {0, 5, 7, 3},    {3, 0, 5, 7},    {3, 5, 0, 7},    {3, 7, 5, 0},
                             {17, 3, 5, 67},  {5, 16, 16, 16}, {37, 2, 3, 5},   {2, 64, 64, 32},
                             {2, 31, 127, 67}};
  std::vector<Case> cases;
  const auto combinations =
      static_cast<uint32_t>(find_schema(KEEL_OP_BATCHED_MATMUL)->dtypes.size());
  for (uint32_t c = 0; c < combinations; ++c) {
    for (int transposes = 0; transposes < 4; ++transposes) {
      const bool ta = (transposes & 2) != 0;
      const bool tb = (transposes & 1) != 0;
      const auto add = [&](const BatchOptions& options) {
        cases.push_back(batched_case(c, ta, tb, 5, 33, 65, 17, options));
      };
      for (const auto& [batch, m, n, k] : extents) {
        cases.push_back(batched_case(c, ta, tb, batch, m, n, k));
      }
      add({.beta = 1, .name = "accumulate"});
      add({.alpha = -0.7, .beta = 0.3, .name = "alpha_beta"});
      add({.padding = 3, .name = "padded"});
      cases.push_back(batched_case(c, ta, tb, 3, 129, 1, 63, {.padding = 3, .name = "padded"}));
      add({.beta = 0.5, .interleaved = true, .name = "interleaved"});
      add({.one_a = true, .name = "one_a"});
      add({.one_b = true, .name = "one_b"});
      add({.shift = 1, .name = "unaligned"});
    }
    cases.push_back(batched_case(c, false, false, 3, 7, 5, 0, {.beta = 0.5, .name = "accumulate"}));
    cases.push_back(batched_case(c, false, false, 2, 3, 5, 3001, {.name = "long"}));
    cases.push_back(batched_case(c, false, true, 2, 5, 3, 3001,
                                 {.distribution = D::kPositive, .name = "growing"}));
    cases.push_back(
        batched_case(c, false, false, 5, 33, 65, 17, {.distribution = D::kWide, .name = "wide"}));
    cases.push_back(batched_case(c, false, false, 5, 33, 65, 17,
                                 {.distribution = D::kNonFinite, .name = "non_finite"}));
    // Scaled up into float16's range.
    cases.push_back(
        batched_case(c, false, false, 5, 33, 65, 17,
                     {.alpha = 0x1p20, .distribution = D::kSubnormal, .name = "subnormal"}));
    cases.push_back(batched_case(c, false, true, 2, 70, 130, 66));
    // A product with an infinity is NaN: a kernel must not skip multiplications by 0.
    cases.push_back(batched_case(
        c, false, false, 5, 33, 65, 17,
        {.distribution = D::kNonFinite, .a_is_zero = true, .name = "zero_and_non_finite"}));
  }
  return cases;
}

}  // namespace keel::ops
