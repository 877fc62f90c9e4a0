// SPDX-License-Identifier: Apache-2.0
// Cases of the activations with a gate or a bias.
#include <iterator>
#include <string>
#include <utility>

#include "ops/testing/case_builder.h"
#include "ops/testing/case_generators.h"

namespace keel::ops {
namespace {

using D = Distribution;

constexpr std::pair<int64_t, int64_t> kShapes[] = {{0, 6},   {5, 0},    {1, 1},    {3, 7},
                                                   {31, 17}, {257, 33}, {2, 4099}, {64, 1024}};

struct Options {
  uint32_t combination = 0;  // every tensor has its only dtype
  D distribution = D::kNormal;
  bool bias = true;
  bool erf = false;
  int64_t padding = 0;
  uint64_t shift = 0;
  const char* name = "";
};

constexpr keel_dtype kDtypes[] = {KEEL_FLOAT32, KEEL_BFLOAT16, KEEL_FLOAT16};

keel_dtype dtype_of(const Options& options) {
  return kDtypes[options.combination];
}

std::string text_of(int64_t n, int64_t d, const Options& options) {
  return "n" + std::to_string(n) + "_d" + std::to_string(d) + options.name;
}

CaseTensor placed(CaseTensor tensor, const Options& options) {
  if (options.padding != 0) tensor = padded(std::move(tensor), options.padding);
  return shifted(std::move(tensor), options.shift);
}

// Gate and up, side by side. With extreme content only the gates are extreme, so that the products
// stay finite.
CaseTensor gates(int64_t n, int64_t d, const Options& options) {
  const bool is_extreme = options.distribution == D::kExtreme;
  return dense(dtype_of(options), {n, 2 * d}, is_extreme ? D::kExtremeGates : options.distribution,
               2 * d);
}

Case swiglu_case(int64_t n, int64_t d, const Options& options) {
  return make_case(KEEL_OP_SWIGLU, options.combination, text_of(n, d, options),
                   {placed(gates(n, d, options), options)},
                   {placed(dense(dtype_of(options), {n, d}, D::kNaN), options)});
}

Case swiglu_backward_case(int64_t n, int64_t d, const Options& options) {
  return make_case(
      KEEL_OP_SWIGLU_BACKWARD, options.combination, text_of(n, d, options),
      {placed(gates(n, d, options), options), placed(dense(dtype_of(options), {n, d}), options)},
      {placed(dense(dtype_of(options), {n, 2 * d}, D::kNaN), options)});
}

std::string form_text(int64_t n, int64_t d, const Options& options) {
  return std::string(options.erf ? "erf/" : "tanh/") + text_of(n, d, options) +
         (options.bias ? "/bias" : "");
}

CaseTensor bias_tensor(int64_t d, const Options& options) {
  return options.bias ? shifted(dense(dtype_of(options), {d}), options.shift) : absent();
}

Case bias_gelu_case(int64_t n, int64_t d, const Options& options) {
  return make_case(KEEL_OP_BIAS_GELU, options.combination, form_text(n, d, options),
                   {placed(dense(dtype_of(options), {n, d}, options.distribution), options),
                    bias_tensor(d, options)},
                   {placed(dense(dtype_of(options), {n, d}, D::kNaN), options)},
                   {int_attribute(options.erf ? 1 : 0)});
}

Case bias_gelu_backward_case(int64_t n, int64_t d, const Options& options) {
  return make_case(KEEL_OP_BIAS_GELU_BACKWARD, options.combination, form_text(n, d, options),
                   {placed(dense(dtype_of(options), {n, d}, options.distribution), options),
                    bias_tensor(d, options), placed(dense(dtype_of(options), {n, d}), options)},
                   {placed(dense(dtype_of(options), {n, d}, D::kNaN), options)},
                   {int_attribute(options.erf ? 1 : 0)});
}

// Adds every shape, layout and content of |base|, by |make(n, d, options)|.
template <typename Make>
void add_variants(std::vector<Case>* cases, const Make& make, const Options& base) {
  for (const auto& [n, d] : kShapes) cases->push_back(make(n, d, base));
  const auto add = [&](Options options, const char* name) {
    options.name = name;
    cases->push_back(make(31, 17, options));
  };
  Options options = base;
  options.padding = 3;
  add(options, "/padded");
  options = base;
  options.shift = 1;
  add(options, "/unaligned");
  const std::pair<D, const char*> contents[] = {{D::kLogits, "/logits"},
                                                {D::kWide, "/wide"},
                                                {D::kSomeNaN, "/some_nan"},
                                                {D::kExtreme, "/extreme"},
                                                {D::kSubnormal, "/subnormal"}};
  for (const auto& [distribution, name] : contents) {
    // Out of float16's range, or with products that keep few digits or none in float16.
    const bool is_extreme = distribution == D::kWide || distribution == D::kSubnormal;
    if (is_extreme && dtype_of(base) == KEEL_FLOAT16) continue;
    options = base;
    options.distribution = distribution;
    add(options, name);
  }
}

// Calls |add(options)| for each dtype and form, with and without a bias.
template <typename Add>
void for_each_bias_gelu(const Add& add) {
  for (uint32_t c = 0; c < std::size(kDtypes); ++c) {
    for (const bool erf : {false, true}) {
      for (const bool bias : {false, true}) {
        add(Options{.combination = c, .bias = bias, .erf = erf});
      }
    }
  }
}

}  // namespace

std::vector<Case> swiglu_cases() {
  std::vector<Case> cases;
  for (uint32_t c = 0; c < std::size(kDtypes); ++c) {
    add_variants(&cases, swiglu_case, {.combination = c});
  }
  return cases;
}

std::vector<Case> swiglu_backward_cases() {
  std::vector<Case> cases;
  for (uint32_t c = 0; c < std::size(kDtypes); ++c) {
    const Options options = {.combination = c};
    add_variants(&cases, swiglu_backward_case, options);
    cases.push_back(in_place(swiglu_backward_case(31, 17, options), 0, 0));
  }
  return cases;
}

std::vector<Case> bias_gelu_cases() {
  std::vector<Case> cases;
  for_each_bias_gelu([&](const Options& options) {
    add_variants(&cases, bias_gelu_case, options);
    cases.push_back(in_place(bias_gelu_case(31, 17, options), 0, 0));
  });
  return cases;
}

std::vector<Case> bias_gelu_backward_cases() {
  std::vector<Case> cases;
  for_each_bias_gelu([&](const Options& options) {
    add_variants(&cases, bias_gelu_backward_case, options);
    for (const uint32_t input : {0u, 2u}) {
      cases.push_back(in_place(bias_gelu_backward_case(31, 17, options), 0, input));
    }
  });
  return cases;
}

}  // namespace keel::ops
