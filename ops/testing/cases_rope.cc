// SPDX-License-Identifier: Apache-2.0
// Cases of rotary positions.
#include <string>
#include <utility>

#include "ops/testing/case_builder.h"
#include "ops/testing/case_generators.h"

namespace keel::ops {
namespace {

using D = Distribution;

struct Shape {
  int64_t tokens, heads, width, positions;
};
// No tokens, no heads, heads of width 0, and no positions; one pair; halves of 3 and of 17; typical
// heads of models; more than one piece.
constexpr Shape kShapes[] = {{0, 3, 8, 5},     {4, 0, 8, 5},     {4, 3, 0, 5},    {3, 2, 8, 0},
                             {1, 1, 2, 1},     {7, 3, 6, 5},     {31, 2, 34, 17}, {67, 4, 64, 131},
                             {33, 5, 128, 41}, {2, 1, 2050, 31}, {521, 4, 80, 67}};
constexpr Shape kShape = {29, 3, 48, 23};  // for variants

struct Options {
  uint32_t combination = 0;
  bool interleaved = false;
  bool inverse = false;
  D x = D::kNormal;
  D positions = D::kIndices;
  int64_t padding = 0;
  uint64_t shift = 0;
  const char* name = "";
};

Case rope_case(const Shape& shape, const Options& options) {
  const keel_dtype dtype = find_schema(KEEL_OP_ROPE)->dtypes[options.combination].inputs[0];
  const auto placed = [&](CaseTensor tensor) {
    if (options.padding != 0) tensor = padded(std::move(tensor), options.padding);
    return shifted(std::move(tensor), options.shift);
  };
  const std::vector<int64_t> of_x = {shape.tokens, shape.heads, shape.width};
  const std::vector<int64_t> of_table = {shape.positions, shape.width / 2};
  // Arbitrary numbers: the operator does not require cosines and sines.
  return make_case(
      KEEL_OP_ROPE, options.combination,
      std::string(options.interleaved ? "pairs/" : "halves/") +
          (options.inverse ? "inverse/" : "") + "t" + std::to_string(shape.tokens) + "_h" +
          std::to_string(shape.heads) + "_d" + std::to_string(shape.width) + "_p" +
          std::to_string(shape.positions) + options.name,
      {placed(dense(dtype, of_x, options.x)), placed(dense(KEEL_FLOAT32, of_table, D::kUniform)),
       placed(dense(KEEL_FLOAT32, of_table, D::kUniform)),
       dense(KEEL_INT32, {shape.tokens}, options.positions, shape.positions)},
      {placed(dense(dtype, of_x, D::kNaN))},
      {int_attribute(options.interleaved ? 1 : 0), int_attribute(options.inverse ? 1 : 0)});
}

}  // namespace

std::vector<Case> rope_cases() {
  std::vector<Case> cases;
  for (uint32_t c = 0; c < find_schema(KEEL_OP_ROPE)->dtypes.size(); ++c) {
    for (const bool interleaved : {false, true}) {
      for (const bool inverse : {false, true}) {
        Options base = {.combination = c, .interleaved = interleaved, .inverse = inverse};
        for (const Shape& shape : kShapes) {
          base.positions = shape.positions == 0 ? D::kIndicesSomeOutside : D::kIndices;
          cases.push_back(rope_case(shape, base));
        }
        base.positions = D::kIndices;
        const auto variant = [&](const char* name, const auto& change) {
          Options options = base;
          options.name = name;
          change(&options);
          cases.push_back(rope_case(kShape, options));
        };
        variant("/some_outside", [](Options* o) { o->positions = D::kIndicesSomeOutside; });
        variant("/some_nan", [](Options* o) { o->x = D::kSomeNaN; });
        variant("/wide", [](Options* o) { o->x = D::kWide; });
        variant("/subnormal", [](Options* o) { o->x = D::kSubnormal; });
        variant("/padded", [](Options* o) { o->padding = 4; });
        variant("/unaligned", [](Options* o) { o->shift = 1; });
        cases.push_back(in_place(rope_case(kShape, base), 0, 0));
        base.positions = D::kIndicesSomeOutside;
        base.name = "/some_outside";
        cases.push_back(in_place(rope_case(kShape, base), 0, 0));
      }
    }
  }
  return cases;
}

}  // namespace keel::ops
