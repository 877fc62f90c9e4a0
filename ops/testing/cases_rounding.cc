// SPDX-License-Identifier: Apache-2.0
// Cases of rounding, saturation and conversion, value by value: all encodings of the 8- and 16-bit
// types, and for wider types the ends of each interval that rounds to one number.
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "ops/schema.h"
#include "ops/testing/case_builder.h"
#include "ops/testing/case_generators.h"

namespace keel::ops {
namespace {

using D = Distribution;

constexpr int64_t kMany = 4099;

// Returns the number of values of a type small enough to try all of them; else 0.
int64_t encodings_of(keel_dtype dtype) {
  switch (dtype) {
    case KEEL_FLOAT8_E4M3FN:
    case KEEL_FLOAT8_E5M2:
      return 256;
    case KEEL_FLOAT16:
    case KEEL_BFLOAT16:
      return 65536;
    default:
      return 0;
  }
}

bool is_integer(keel_dtype dtype) {
  return dtype == KEEL_INT32 || dtype == KEEL_INT64 || dtype == KEEL_UINT8;
}

// ---- fill

struct Value {
  const char* name;
  double value;
};

// Values near the ends of intervals where one rounding from float64 differs from two roundings
// through float32.
constexpr Value kOfFloats[] = {
    {"float16_tie_and_less", 1 + 0x1p-11 + 0x1p-40},
    {"float16_tie_to_odd", 1 + 3 * 0x1p-11 - 0x1p-40},
    {"bfloat16_tie_and_less", 1 + 0x1p-8 + 0x1p-40},
    {"float16_largest", 65519.99},
    {"float16_overflow", 65520},
    {"float16_least", 0x1p-24},
    {"float16_underflow", -0x1.8p-25},
    {"float32_largest", 0x1.fffffefp127},
    {"float32_overflow", -0x1.fffffffp127},
    {"minus_zero", -0.0},
};
constexpr Value kOfIntegers[] = {
    {"below_one", 0.999},           {"just_below", 200.9999},     {"odd", 16777217},
    {"largest_i32", 2147483647},    {"least_i32", -0x1p31},       {"fraction_below_zero", -0.75},
    {"odd_below", -16777219.5},     {"past_32_bits", 0x1p32 + 5}, {"least_i64", -0x1p63},
    {"large_i64", 0x1p62 + 0x1p12},
};

bool fits(keel_dtype dtype, double value) {
  switch (dtype) {
    case KEEL_UINT8:
      return value >= 0 && value < 256;
    case KEEL_INT32:
      return value >= -0x1p31 && value < 0x1p31;
    default:
      return true;
  }
}

std::vector<Case> fill_roundings() {
  std::vector<Case> cases;
  const auto dtypes = find_schema(KEEL_OP_FILL)->dtypes;
  for (uint32_t c = 0; c < dtypes.size(); ++c) {
    const keel_dtype dtype = dtypes[c].outputs[0];
    const auto add = [&](const Value& each) {
      if (!fits(dtype, each.value)) return;
      cases.push_back(make_case(KEEL_OP_FILL, c, std::string("rounding/") + each.name, {},
                                {dense(dtype, {5}, D::kNaN)}, {float_attribute(each.value)}));
    };
    if (is_integer(dtype)) {
      for (const Value& each : kOfIntegers) add(each);
    } else {
      for (const Value& each : kOfFloats) add(each);
    }
  }
  return cases;
}

// ---- casts

// The contents of |from| that are hard to convert, each with its name.
std::vector<std::pair<const char*, CaseTensor>> conversions(keel_dtype from, keel_dtype to) {
  std::vector<std::pair<const char*, CaseTensor>> contents;
  if (encodings_of(from) != 0) {
    contents.emplace_back("every_value", dense(from, {encodings_of(from)}, D::kEveryValue));
  }
  if (from == KEEL_FLOAT32 && !is_integer(to)) {
    contents.emplace_back("edges", dense(from, {kMany}, D::kEdges));
  }
  if (is_integer(from) || is_integer(to)) {
    contents.emplace_back("integral_edges", dense(from, {kMany}, D::kIntegralEdges));
    contents.emplace_back("small", dense(from, {kMany}, D::kLogits));
  }
  return contents;
}

std::vector<Case> cast_roundings() {
  std::vector<Case> cases;
  const auto dtypes = find_schema(KEEL_OP_CAST)->dtypes.first(common_combinations(KEEL_OP_CAST));
  for (uint32_t c = 0; c < dtypes.size(); ++c) {
    const keel_dtype to = dtypes[c].outputs[0];
    for (auto& [name, x] : conversions(dtypes[c].inputs[0], to)) {
      CaseTensor y = dense(to, x.shape, D::kNaN);
      cases.push_back(make_case(KEEL_OP_CAST, c, std::string("rounding/") + name, {std::move(x)},
                                {std::move(y)}));
    }
  }
  return cases;
}

// One scale that keeps ties in place, and one that rounds.
std::vector<Case> cast_scaled_roundings() {
  std::vector<Case> cases;
  const auto dtypes = find_schema(KEEL_OP_CAST_SCALED)->dtypes;
  for (uint32_t c = 0; c < dtypes.size(); ++c) {
    const keel_dtype to = dtypes[c].outputs[0];
    for (const auto& [name, x] : conversions(dtypes[c].inputs[0], to)) {
      const std::pair<const char*, double> scales[] = {{"", 1}, {"/scaled", -0.3}};
      for (const auto& [scale_name, scale] : scales) {
        const CaseTensor factor = constant(KEEL_FLOAT32, {}, scale);
        cases.push_back(make_case(KEEL_OP_CAST_SCALED, c,
                                  std::string("rounding/") + name + scale_name, {x, factor},
                                  {dense(to, x.shape, D::kNaN), dense(KEEL_FLOAT32, {}, D::kNaN)}));
      }
    }
  }
  return cases;
}

// ---- sums and products of two: one rounding at the end

std::vector<Case> add_roundings() {
  std::vector<Case> cases;
  const auto dtypes = find_schema(KEEL_OP_ADD)->dtypes;
  const std::pair<const char*, std::pair<D, D>> contents[] = {
      {"edges", {D::kEdges, D::kEdges}},
      {"edges_and_faint", {D::kEdges, D::kFaint}},
      {"edges_and_zeroes", {D::kZeroes, D::kEdges}},
  };
  for (uint32_t c = 0; c < dtypes.size(); ++c) {
    const keel_dtype dtype = dtypes[c].outputs[0];
    for (const auto& [name, of] : contents) {
      cases.push_back(make_case(KEEL_OP_ADD, c, std::string("rounding/") + name,
                                {dense(dtype, {kMany}, of.first), dense(dtype, {kMany}, of.second)},
                                {dense(dtype, {kMany}, D::kNaN)}));
    }
  }
  return cases;
}

// Factors that float32 represents exactly, so that only the product is rounded.
std::vector<Case> scale_roundings() {
  std::vector<Case> cases;
  const auto dtypes = find_schema(KEEL_OP_SCALE)->dtypes;
  const std::pair<const char*, double> factors[] = {
      {"one", 1}, {"minus_one", -1}, {"half", 0.5}, {"three", 3}, {"small", 0x1p-20}};
  for (uint32_t c = 0; c < dtypes.size(); ++c) {
    const keel_dtype dtype = dtypes[c].outputs[0];
    for (const auto& [name, alpha] : factors) {
      cases.push_back(make_case(KEEL_OP_SCALE, c, std::string("rounding/") + name,
                                {dense(dtype, {kMany}, D::kEdges)},
                                {dense(dtype, {kMany}, D::kNaN)}, {float_attribute(alpha)}));
    }
  }
  return cases;
}

}  // namespace

std::vector<Case> rounding_cases(keel_op_id op) {
  switch (op) {
    case KEEL_OP_FILL:
      return fill_roundings();
    case KEEL_OP_CAST:
      return cast_roundings();
    case KEEL_OP_CAST_SCALED:
      return cast_scaled_roundings();
    case KEEL_OP_ADD:
      return add_roundings();
    case KEEL_OP_SCALE:
      return scale_roundings();
    default:
      return {};
  }
}

}  // namespace keel::ops
