// SPDX-License-Identifier: Apache-2.0
// Cases of dropout.
#include <limits>
#include <string>
#include <utility>

#include "ops/testing/case_builder.h"
#include "ops/testing/case_generators.h"

namespace keel::ops {
namespace {

using D = Distribution;
using Shape = std::vector<int64_t>;

struct Options {
  uint32_t combination = 0;
  bool bias = false;
  bool residual = false;
  double p = 0.1;
  int64_t seed = 1234567890123;
  int64_t offset = 7;
  D x = D::kNormal;
  int64_t padding = 0;
  uint64_t shift = 0;
  const char* name = "";
};

// Empty; one element; rows that end within a counter; typical rows of models; more than one piece.
const Shape kShapes[] = {{0, 5}, {1}, {7, 13}, {2, 3, 5}, {33, 128}, {257, 300}, {2, 4099}};
const Shape kShape = {31, 36};  // for variants; rows are aligned

std::vector<keel_attribute> attributes(const Options& options) {
  return {float_attribute(options.p), int_attribute(options.seed), int_attribute(options.offset)};
}

CaseTensor placed(CaseTensor tensor, const Options& options) {
  if (options.padding != 0) tensor = padded(std::move(tensor), options.padding);
  return shifted(std::move(tensor), options.shift);
}

Case dropout_add_case(const Shape& shape, const Options& options) {
  const keel_dtype dtype = find_schema(KEEL_OP_DROPOUT_ADD)->dtypes[options.combination].inputs[0];
  return make_case(KEEL_OP_DROPOUT_ADD, options.combination,
                   shape_text(shape) + (options.bias ? "/bias" : "") +
                       (options.residual ? "/residual" : "") + options.name,
                   {placed(dense(dtype, shape, options.x), options),
                    options.bias ? placed(dense(dtype, {shape.back()}), options) : absent(),
                    options.residual ? placed(dense(dtype, shape), options) : absent()},
                   {placed(dense(dtype, shape, D::kNaN), options)}, attributes(options));
}

Case dropout_backward_case(const Shape& shape, const Options& options) {
  const keel_dtype dtype =
      find_schema(KEEL_OP_DROPOUT_BACKWARD)->dtypes[options.combination].inputs[0];
  return make_case(KEEL_OP_DROPOUT_BACKWARD, options.combination, shape_text(shape) + options.name,
                   {placed(dense(dtype, shape, options.x), options)},
                   {placed(dense(dtype, shape, D::kNaN), options)}, attributes(options));
}

// Adds every shape, probability, offset, layout and content, by |make(shape, options)|.
template <typename Make>
void add_variants(std::vector<Case>* cases, const Make& make, const Options& base) {
  for (const Shape& shape : kShapes) cases->push_back(make(shape, base));
  const auto variant = [&](const char* name, const auto& change) {
    Options options = base;
    options.name = name;
    change(&options);
    cases->push_back(make(kShape, options));
  };
  variant("/all_kept", [](Options* o) { o->p = 0; });
  variant("/half", [](Options* o) { o->p = 0.5; });
  variant("/most_dropped", [](Options* o) { o->p = 0.99; });
  variant("/none_kept", [](Options* o) { o->p = 1 - 0x1p-53; });
  variant("/negative_seed", [](Options* o) { o->seed = -2; });
  // Counters carry from the lower into the upper word, and past the attribute's maximum.
  variant("/carry", [](Options* o) { o->offset = (int64_t{3} << 32) - 5; });
  variant("/last_offset", [](Options* o) { o->offset = std::numeric_limits<int64_t>::max(); });
  variant("/some_nan", [](Options* o) { o->x = D::kSomeNaN; });
  variant("/subnormal", [](Options* o) { o->x = D::kSubnormal; });
  variant("/padded", [](Options* o) { o->padding = 4; });
  variant("/unaligned", [](Options* o) { o->shift = 1; });
}

}  // namespace

std::vector<Case> dropout_add_cases() {
  std::vector<Case> cases;
  for (uint32_t c = 0; c < find_schema(KEEL_OP_DROPOUT_ADD)->dtypes.size(); ++c) {
    for (const bool bias : {false, true}) {
      for (const bool residual : {false, true}) {
        const Options options = {.combination = c, .bias = bias, .residual = residual};
        add_variants(&cases, dropout_add_case, options);
        cases.push_back(in_place(dropout_add_case(kShape, options), 0, 0));
        if (residual) cases.push_back(in_place(dropout_add_case(kShape, options), 0, 2));
      }
    }
  }
  return cases;
}

std::vector<Case> dropout_backward_cases() {
  std::vector<Case> cases;
  for (uint32_t c = 0; c < find_schema(KEEL_OP_DROPOUT_BACKWARD)->dtypes.size(); ++c) {
    const Options options = {.combination = c};
    add_variants(&cases, dropout_backward_case, options);
    cases.push_back(in_place(dropout_backward_case(kShape, options), 0, 0));
  }
  return cases;
}

}  // namespace keel::ops
