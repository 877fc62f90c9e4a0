// SPDX-License-Identifier: Apache-2.0
// Cases of packed weights.
#include <string>
#include <utility>

#include "ops/testing/case_builder.h"
#include "ops/testing/case_generators.h"

namespace keel::ops {
namespace {

using D = Distribution;
using Shape = std::vector<int64_t>;

Shape packed_shape(int64_t k, int64_t n) {
  return {KEEL_PACKED_EXTENT(k), KEEL_PACKED_EXTENT(n)};
}

// ---- pack_weights

struct PackOptions {
  int64_t padding = 0;  // between the rows of b
  uint64_t shift = 0;   // elements before each tensor's first
  const char* name = "";
};

Case pack_case(uint32_t combination, bool trans_b, int64_t k, int64_t n,
               const PackOptions& options = {}) {
  const DtypeCombination& dtypes = find_schema(KEEL_OP_PACK_WEIGHTS)->dtypes[combination];
  CaseTensor b = dense(dtypes.inputs[0], trans_b ? Shape{n, k} : Shape{k, n});
  if (options.padding != 0) b = padded(std::move(b), options.padding);
  const std::string suffix = std::string(trans_b ? "t" : "n") + "/n" + std::to_string(n) + "_k" +
                             std::to_string(k) + options.name;
  return make_case(KEEL_OP_PACK_WEIGHTS, combination, suffix,
                   {shifted(std::move(b), options.shift)},
                   {shifted(dense(dtypes.outputs[0], packed_shape(k, n), D::kNaN), options.shift)},
                   {int_attribute(trans_b ? 1 : 0)});
}

// ---- packed_matmul

struct ProductOptions {
  bool bias = false;
  double alpha = 1;
  double beta = 0;
  int64_t activation = 0;
  D distribution = D::kNormal;
  bool a_is_zero = false;
  int64_t padding = 0;  // between the rows of a and c
  uint64_t shift = 0;   // elements before each tensor's first
  const char* name = "";
};

Case product_case(uint32_t combination, bool trans_a, int64_t m, int64_t n, int64_t k,
                  const ProductOptions& options = {}) {
  const DtypeCombination& dtypes = find_schema(KEEL_OP_PACKED_MATMUL)->dtypes[combination];
  const auto place = [&](CaseTensor tensor) {
    if (options.padding != 0) tensor = padded(std::move(tensor), options.padding);
    return shifted(std::move(tensor), options.shift);
  };
  std::string suffix = std::string(trans_a ? "t" : "n") + "/m" + std::to_string(m) + "_n" +
                       std::to_string(n) + "_k" + std::to_string(k);
  if (options.bias) suffix += "/bias";
  suffix += options.name;
  return make_case(
      KEEL_OP_PACKED_MATMUL, combination, suffix,
      {place(dense(dtypes.inputs[0], trans_a ? Shape{k, m} : Shape{m, k},
                   options.a_is_zero ? D::kZeroes : options.distribution)),
       shifted(dense(dtypes.inputs[1], packed_shape(k, n), options.distribution), options.shift),
       options.bias ? shifted(dense(dtypes.inputs[2], {n}), options.shift) : absent()},
      {place(dense(dtypes.outputs[0], {m, n}, options.beta == 0 ? D::kNaN : D::kNormal))},
      {int_attribute(trans_a ? 1 : 0), float_attribute(options.alpha),
       float_attribute(options.beta), int_attribute(options.activation)});
}

}  // namespace

std::vector<Case> pack_weights_cases() {
  // One element; near and at the panels that kernels read; vectors; each extent zero.
  const std::pair<int64_t, int64_t> extents[] = {{1, 1},  {17, 65},   {64, 64}, {67, 127}, {1, 129},
                                                 {65, 1}, {130, 258}, {0, 5},   {7, 0}};
  std::vector<Case> cases;
  const auto combinations = static_cast<uint32_t>(find_schema(KEEL_OP_PACK_WEIGHTS)->dtypes.size());
  for (uint32_t c = 0; c < combinations; ++c) {
    for (const bool trans_b : {false, true}) {
      for (const auto& [k, n] : extents) cases.push_back(pack_case(c, trans_b, k, n));
      cases.push_back(pack_case(c, trans_b, 67, 129, {.padding = 3, .name = "/padded"}));
      cases.push_back(pack_case(c, trans_b, 67, 129, {.shift = 1, .name = "/unaligned"}));
    }
  }
  return cases;
}

std::vector<Case> packed_matmul_cases() {
  struct Extents {
    int64_t m, n, k;
  };
  // As for matmul: one element, vectors, near and at kernels' tile sizes, few rows, each extent
  // zero.
  const Extents extents[] = {{1, 1, 1},    {33, 65, 17},  {1, 129, 64},    {129, 1, 63},
                             {0, 5, 7},    {5, 0, 7},     {7, 5, 0},       {16, 64, 64},
                             {5, 127, 67}, {70, 130, 66}, {130, 258, 131}, {14, 33, 1}};
  std::vector<Case> cases;
  const auto combinations =
      static_cast<uint32_t>(find_schema(KEEL_OP_PACKED_MATMUL)->dtypes.size());
  for (uint32_t c = 0; c < combinations; ++c) {
    const auto add = [&](bool trans_a, int64_t m, int64_t n, int64_t k,
                         const ProductOptions& options = {}) {
      cases.push_back(product_case(c, trans_a, m, n, k, options));
    };
    for (const bool trans_a : {false, true}) {
      for (const auto& [m, n, k] : extents) add(trans_a, m, n, k);
      add(trans_a, 33, 65, 17, {.bias = true});
      add(trans_a, 33, 65, 17, {.bias = true, .alpha = -0.7, .beta = 0.3, .name = "/alpha_beta"});
      add(trans_a, 33, 129, 67, {.beta = 1, .name = "/accumulate"});
      add(trans_a, 33, 129, 67, {.bias = true, .padding = 3, .name = "/padded"});
      add(trans_a, 33, 129, 67, {.bias = true, .shift = 1, .name = "/unaligned"});
    }
    add(false, 7, 5, 0, {.bias = true, .beta = 0.5, .name = "/accumulate"});
    add(false, 33, 129, 67, {.bias = true, .activation = 1, .name = "/gelu"});
    add(false, 33, 129, 67, {.bias = true, .activation = 2, .name = "/gelu_erf"});
    add(false, 33, 129, 67, {.bias = true, .activation = 3, .name = "/silu"});
    add(false, 33, 129, 67, {.beta = 1, .activation = 3, .name = "/accumulate/silu"});
    add(false, 3, 70, 3001, {.name = "/long"});
    add(false, 5, 35, 3001, {.distribution = D::kPositive, .name = "/growing"});
    add(false, 33, 129, 67, {.distribution = D::kWide, .name = "/wide"});
    // The padding beyond k and n is not finite either, and must not affect the result.
    add(false, 33, 65, 2, {.distribution = D::kNonFinite, .name = "/non_finite"});
    add(false, 33, 65, 17,
        {.distribution = D::kNonFinite, .a_is_zero = true, .name = "/zero_and_non_finite"});
    // Scaled up into float16's range.
    add(false, 33, 65, 17, {.alpha = 0x1p20, .distribution = D::kSubnormal, .name = "/subnormal"});
  }
  return cases;
}

}  // namespace keel::ops
