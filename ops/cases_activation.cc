// Cases of the activations with a gate or a bias.
#include <string>
#include <utility>

#include "ops/case_builder.h"
#include "ops/case_generators.h"

namespace keel::ops {
namespace {

using D = Distribution;

constexpr std::pair<int64_t, int64_t> kShapes[] = {{0, 6},   {5, 0},    {1, 1},    {3, 7},
                                                   {31, 17}, {257, 33}, {2, 4099}, {64, 1024}};

struct Options {
  D distribution = D::kNormal;
  bool bias = true;
  bool erf = false;
  int64_t padding = 0;
  uint64_t shift = 0;
  const char* name = "";
};

std::string text_of(int64_t n, int64_t d, const Options& options) {
  return "n" + std::to_string(n) + "_d" + std::to_string(d) + options.name;
}

CaseTensor placed(CaseTensor tensor, const Options& options) {
  if (options.padding != 0) tensor = padded(std::move(tensor), options.padding);
  return shifted(std::move(tensor), options.shift);
}

Case swiglu_case(int64_t n, int64_t d, const Options& options = {}) {
  return make_case(KEEL_OP_SWIGLU, 0, text_of(n, d, options),
                   {placed(dense(KEEL_FLOAT32, {n, 2 * d}, options.distribution), options)},
                   {placed(dense(KEEL_FLOAT32, {n, d}, D::kNaN), options)});
}

Case swiglu_backward_case(int64_t n, int64_t d, const Options& options = {}) {
  return make_case(KEEL_OP_SWIGLU_BACKWARD, 0, text_of(n, d, options),
                   {placed(dense(KEEL_FLOAT32, {n, 2 * d}, options.distribution), options),
                    placed(dense(KEEL_FLOAT32, {n, d}), options)},
                   {placed(dense(KEEL_FLOAT32, {n, 2 * d}, D::kNaN), options)});
}

std::string form_text(int64_t n, int64_t d, const Options& options) {
  return std::string(options.erf ? "erf/" : "tanh/") + text_of(n, d, options) +
         (options.bias ? "/bias" : "");
}

CaseTensor bias_tensor(int64_t d, const Options& options) {
  return options.bias ? shifted(dense(KEEL_FLOAT32, {d}), options.shift) : absent();
}

Case bias_gelu_case(int64_t n, int64_t d, const Options& options) {
  return make_case(
      KEEL_OP_BIAS_GELU, 0, form_text(n, d, options),
      {placed(dense(KEEL_FLOAT32, {n, d}, options.distribution), options), bias_tensor(d, options)},
      {placed(dense(KEEL_FLOAT32, {n, d}, D::kNaN), options)},
      {int_attribute(options.erf ? 1 : 0)});
}

Case bias_gelu_backward_case(int64_t n, int64_t d, const Options& options) {
  return make_case(KEEL_OP_BIAS_GELU_BACKWARD, 0, form_text(n, d, options),
                   {placed(dense(KEEL_FLOAT32, {n, d}, options.distribution), options),
                    bias_tensor(d, options), placed(dense(KEEL_FLOAT32, {n, d}), options)},
                   {placed(dense(KEEL_FLOAT32, {n, d}, D::kNaN), options)},
                   {int_attribute(options.erf ? 1 : 0)});
}

// Every shape, layout and content of |base|; |make(n, d, options)|.
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
                                                {D::kSubnormal, "/subnormal"}};
  for (const auto& [distribution, name] : contents) {
    options = base;
    options.distribution = distribution;
    add(options, name);
  }
}

}  // namespace

std::vector<Case> swiglu_cases() {
  std::vector<Case> cases;
  add_variants(&cases, swiglu_case, {});
  return cases;
}

std::vector<Case> swiglu_backward_cases() {
  std::vector<Case> cases;
  add_variants(&cases, swiglu_backward_case, {});
  cases.push_back(in_place(swiglu_backward_case(31, 17), 0, 0));
  return cases;
}

std::vector<Case> bias_gelu_cases() {
  std::vector<Case> cases;
  for (const bool erf : {false, true}) {
    for (const bool bias : {false, true}) {
      const Options options = {.bias = bias, .erf = erf};
      add_variants(&cases, bias_gelu_case, options);
      cases.push_back(in_place(bias_gelu_case(31, 17, options), 0, 0));
    }
  }
  return cases;
}

std::vector<Case> bias_gelu_backward_cases() {
  std::vector<Case> cases;
  for (const bool erf : {false, true}) {
    for (const bool bias : {false, true}) {
      const Options options = {.bias = bias, .erf = erf};
      add_variants(&cases, bias_gelu_backward_case, options);
      for (const uint32_t input : {0u, 2u}) {
        cases.push_back(in_place(bias_gelu_backward_case(31, 17, options), 0, input));
      }
    }
  }
  return cases;
}

}  // namespace keel::ops
