// SPDX-License-Identifier: Apache-2.0
// Cases of reduce, gather and scatter.
#include <cmath>
#include <iterator>
#include <keel/plugin/numbers.hpp>
#include <limits>
#include <string>
#include <utility>

#include "ops/testing/case_builder.h"
#include "ops/testing/case_generators.h"

namespace keel::ops {
namespace {

using D = Distribution;
using Shape = std::vector<int64_t>;

constexpr const char* reduce_name(int64_t number) {
#define KEEL_NAME(NAME, name) #name,
  constexpr const char* kNames[] = {KEEL_FOR_EACH_REDUCE_FUNCTION(KEEL_NAME)};
#undef KEEL_NAME
  return kNames[number];
}

bool finds_position(int64_t function) {
  return function == KEEL_REDUCE_FUNCTION_ARGMAX || function == KEEL_REDUCE_FUNCTION_ARGMIN;
}

bool gives_truth(int64_t function) {
  return function == KEEL_REDUCE_FUNCTION_ANY || function == KEEL_REDUCE_FUNCTION_ALL;
}

bool is_real(int64_t function) {
  return function == KEEL_REDUCE_FUNCTION_MEAN || function == KEEL_REDUCE_FUNCTION_NORM ||
         function == KEEL_REDUCE_FUNCTION_LOG_SUM_EXP;
}

// Whether the cases' results of |function| over these dtypes are defined, and within the output's
// range.
bool is_tried(int64_t function, const DtypeCombination& dtypes) {
  const keel_dtype from = dtypes.inputs[0];
  const keel_dtype to = dtypes.outputs[0];
  if (finds_position(function)) return to == KEEL_INT64 || (to == KEEL_INT32 && from == to);
  if (to == KEEL_UINT8) return gives_truth(function);
  if (gives_truth(function)) return from == to || from == KEEL_UINT8;
  if (kit::is_integer(from) && kit::is_integer(to)) return !is_real(function);
  return !kit::is_integer(to);
}

class ReduceCases {
 public:
  // Adds a case over |shape|, reduced along the axes of the bits of |axes|.
  Case* add(int64_t function, uint32_t combination, const Shape& shape, uint32_t axes,
            const std::string& suffix = "") {
    const DtypeCombination& dtypes = schema_.dtypes[combination];
    Shape reduced = shape;
    std::string text = "axes";
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if ((axes >> axis & 1) == 0) continue;
      reduced[axis] = 1;
      text += std::to_string(axis);
    }
    // Factors near 1 and few large integers keep products within range.
    const bool product = function == KEEL_REDUCE_FUNCTION_PROD;
    CaseTensor x = dense(dtypes.inputs[0], shape, product ? D::kPowerOfTwo : D::kNormal);
    if (gives_truth(function)) x = dense(dtypes.inputs[0], shape, D::kIndices, /*bound=*/2);
    if (kit::is_integer(x.dtype) && !gives_truth(function)) {
      x = dense(dtypes.inputs[0], shape, D::kIndices, product ? 3 : 100);
      x.base = x.dtype == KEEL_UINT8 ? 0 : product ? -1 : -50;
    }
    Case each = make_case(KEEL_OP_REDUCE, combination, "", {std::move(x)},
                          {dense(dtypes.outputs[0], reduced, D::kNaN)}, {int_attribute(function)});
    const std::string from = short_name(dtypes.inputs[0]);
    const std::string to = short_name(dtypes.outputs[0]);
    each.id = "reduce/" + (from == to ? to : from + "_" + to) + "/" + reduce_name(function) + "/" +
              shape_text(shape) + "/" + text + (suffix.empty() ? "" : "/" + suffix);
    cases_.push_back(std::move(each));
    return &cases_.back();
  }

  std::vector<Case> take() { return std::move(cases_); }
  const Schema& schema() const { return schema_; }

 private:
  const Schema& schema_ = *find_schema(KEEL_OP_REDUCE);
  std::vector<Case> cases_;
};

// Returns the first combination of |dtypes| in which |function| is tried with float32 input.
uint32_t usual_combination(int64_t function, const Schema& schema) {
  for (uint32_t c = 0; c < schema.dtypes.size(); ++c) {
    if (schema.dtypes[c].inputs[0] == KEEL_FLOAT32 && is_tried(function, schema.dtypes[c])) {
      return c;
    }
  }
  return 0;
}

// Shapes and axes of one function: rows, columns, all, inner and outer axes, strides.
void add_shapes(ReduceCases* cases, int64_t function) {
  const uint32_t usual = usual_combination(function, cases->schema());
  const bool product = function == KEEL_REDUCE_FUNCTION_PROD;
  cases->add(function, usual, {33, 65}, 0b01);
  cases->add(function, usual, {33, 65}, 0b10);
  cases->add(function, usual, {7, 5}, 0b11);
  cases->add(function, usual, {33, 65}, 0b00);
  cases->add(function, usual, {}, 0);
  cases->add(function, usual, {2, 3, 4, 3, 2, 5}, 0b010110);
  cases->add(function, usual, {2, 3, 4, 3, 2, 5}, 0b101001);
  cases->add(function, usual, {0, 5}, 0b10);
  if (!product) {
    cases->add(function, usual, {3, 4099}, 0b10);
    cases->add(function, usual, {4099, 3}, 0b01);
    cases->add(function, usual, {70001}, 0b1);
    cases->add(function, usual, {2, 129, 65}, 0b010);
  }
  // Two parts of 2^16, and a rest. One of the sums and one of the choices: more take an emulated
  // chip long.
  if (function == KEEL_REDUCE_FUNCTION_SUM || function == KEEL_REDUCE_FUNCTION_ARGMAX) {
    cases->add(function, usual, {131'101}, 0b1)->profile = Profile::kQuick;
  }
  Case* each = cases->add(function, usual, {31, 17}, 0b10, "transposed");
  each->inputs[0] = transposed(each->inputs[0]);
  each->strided = true;
  each = cases->add(function, usual, {31, 17}, 0b01, "broadcast");
  each->inputs[0] = broadcast(each->inputs[0]);
  each->outputs[0].strides = {0, 3};
  each->strided = true;
  each = cases->add(function, usual, {5, 1031}, 0b10, "unaligned");
  if (product) each->inputs[0].distribution = D::kPositive;
  each->inputs[0] = shifted(padded(each->inputs[0], 3), 1);
  each->strided = true;
  if (finds_position(function) || function == KEEL_REDUCE_FUNCTION_MAX ||
      function == KEEL_REDUCE_FUNCTION_MIN) {
    cases->add(function, usual, {63, 129}, 0b10, "some_nan")->inputs[0].distribution = D::kSomeNaN;
    cases->add(function, usual, {129, 63}, 0b01, "ties")->inputs[0].distribution = D::kPowerOfTwo;
    // Equals in parts of a row that different threads look at.
    cases->add(function, usual, {3, 4099}, 0b10, "ties")->inputs[0].distribution = D::kPowerOfTwo;
    cases->add(function, usual, {70001}, 0b1, "ties")->inputs[0].distribution = D::kPowerOfTwo;
    cases->add(function, usual, {3, 4099}, 0b10, "some_nan")->inputs[0].distribution = D::kSomeNaN;
    Case* const infinite = cases->add(function, usual, {9, 300}, 0b10, "infinite");
    infinite->inputs[0] =
        constant(KEEL_FLOAT32, {9, 300}, -std::numeric_limits<double>::infinity());
  } else {
    cases->add(function, usual, {5, 0}, 0b10);
    if (!gives_truth(function)) {
      cases->add(function, usual, {63, 129}, 0b10, "some_nan")->inputs[0].distribution =
          D::kSomeNaN;
    }
  }
  if (function == KEEL_REDUCE_FUNCTION_LOG_SUM_EXP) {
    cases->add(function, usual, {17, 300}, 0b10, "masked")->inputs[0].distribution =
        D::kMaskedLogits;
  }
}

// One exceptional element in each row, at the ends of the pieces into which kernels split a row,
// and one in a whole tensor: its effect reaches the result, from whatever thread looks at it.
void add_lone(ReduceCases* cases, int64_t function) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  // Combinations of a float input, by turns; of products that of float32, since most of them are
  // beyond float16.
  std::vector<uint32_t> combinations;
  const bool product = function == KEEL_REDUCE_FUNCTION_PROD;
  if (product) combinations.push_back(usual_combination(function, cases->schema()));
  for (uint32_t c = 0; !product && c < cases->schema().dtypes.size(); ++c) {
    const DtypeCombination& dtypes = cases->schema().dtypes[c];
    if (is_tried(function, dtypes) && !kit::is_integer(dtypes.inputs[0])) combinations.push_back(c);
  }
  size_t turn = 0;
  struct Lone {
    const char* text;
    double value;
    D among;
  };
  std::vector<Lone> all;
  if (function == KEEL_REDUCE_FUNCTION_ANY) {
    all = {{"truth", 0.25, D::kLoneAmongZeroes},
           {"minus_truth", -3, D::kLoneAmongZeroes},
           {"nan", std::nan(""), D::kLoneAmongZeroes}};
  } else if (function == KEEL_REDUCE_FUNCTION_ALL) {
    all = {{"zero", 0, D::kLone}, {"nan", std::nan(""), D::kLone}};
  } else {
    all = {{"nan", std::nan(""), D::kLone},
           {"inf", kInfinity, D::kLone},
           {"minus_inf", -kInfinity, D::kLone}};
    if (finds_position(function) || function == KEEL_REDUCE_FUNCTION_MAX ||
        function == KEEL_REDUCE_FUNCTION_MIN || function == KEEL_REDUCE_FUNCTION_ABS_MAX) {
      all.push_back({"large", 100, D::kLone});
      all.push_back({"minus_large", -100, D::kLone});
    }
    if (product) all.push_back({"zero", 0, D::kLone});
  }
  const auto add = [&](const Lone& lone, const Shape& shape, uint32_t axes, int64_t of,
                       std::vector<int64_t> places, const std::string& suffix) {
    const uint32_t combination = combinations[turn++ % combinations.size()];
    CaseTensor& x = cases->add(function, combination, shape, axes, suffix + lone.text)->inputs[0];
    x.distribution = lone.among;
    x.lone = lone.value;
    x.bound = of;
    x.places = std::move(places);
  };
  for (const Lone& lone : all) {
    for (const int64_t columns : {67, 2050}) {
      // A product of many numbers may be 0 in float32 and not in the reference.
      if (product && std::isinf(lone.value) && columns > 67) continue;
      std::vector<int64_t> places;
      for (const int64_t place : {0, 1, 31, 32, 63, 64, 255, 256, 511, 512, 1024, 2047, 2048}) {
        places.push_back(place < columns ? place : -1);
      }
      places.push_back(columns - 1);
      add(lone, {14, columns}, 0b10, columns, std::move(places), "lone_");
    }
  }
  constexpr int64_t kCount = 16'387;
  const int64_t places[] = {0, 255, 256, 4095, 4096, 8191, 8192, 16'384, 16'386};
  for (size_t i = 0; i < 3; ++i) {
    const int64_t place = places[(static_cast<size_t>(function) + 3 * i) % std::size(places)];
    const Lone& lone = all[product ? 0 : i % all.size()];
    add(lone, {kCount}, 0b1, kCount, {place}, "at_" + std::to_string(place) + "_");
    const int64_t row = 1 + 64 * static_cast<int64_t>(i);
    add(lone, {131, 14}, 0b01, 131 * 14, {row * 14 + 3}, "at_row_" + std::to_string(row) + "_");
  }
}

// Each function and combination of dtypes on another shape, axes and layout than the next.
void add_varied(ReduceCases* cases, int64_t function, uint32_t combination) {
  struct Varied {
    Shape shape;
    uint32_t axes;
  };
  const Varied shapes[] = {{{33, 65}, 0b01},  {{65, 33}, 0b10},  {{2, 129, 17}, 0b010},
                           {{3, 1027}, 0b10}, {{1027, 3}, 0b01}, {{5, 3, 7, 2}, 0b1010},
                           {{257}, 0b1},      {{64, 64}, 0b11},  {{5, 3, 7, 2}, 0b0101}};
  const Varied few[] = {
      {{33, 6}, 0b10}, {{5, 33}, 0b01}, {{2, 7, 17}, 0b010}, {{5, 3, 7, 2}, 0b1010}};
  const size_t turn = static_cast<size_t>(function) * 5 + combination;
  const bool product = function == KEEL_REDUCE_FUNCTION_PROD;
  const Varied& varied = product ? few[turn % std::size(few)] : shapes[turn % std::size(shapes)];
  constexpr const char* kLayouts[] = {"/unaligned", "/x_padded", "/x_transposed", "/y_padded",
                                      "/x_reversed"};
  const size_t layout = turn % std::size(kLayouts);
  Case* const each = cases->add(function, combination, varied.shape, varied.axes,
                                std::string("varied") + kLayouts[layout]);
  CaseTensor& x = each->inputs[0];
  each->strided = layout != 0;
  switch (layout) {
    case 0:
      x = shifted(x, 1);
      break;
    case 1:
      x = padded(x, 3);
      break;
    case 2:
      x = transposed(x);
      break;
    case 3:
      each->outputs[0] = padded(each->outputs[0], 2);
      break;
    default:
      x = shifted(transposed(x), 3);
      break;
  }
}

// |add|: of scatter. The index is dense unless a caller of this function changes it.
Case moved_case(keel_op_id op, uint32_t combination, const Shape& from, const Shape& to,
                int64_t axis, bool add, const std::string& suffix) {
  const bool gathers = op == KEEL_OP_GATHER;
  const DtypeCombination& dtypes = find_schema(op)->dtypes[combination];
  const auto content = [&](const Shape& shape) {
    const keel_dtype dtype = dtypes.inputs[0];
    if (!kit::is_integer(dtype)) return dense(dtype, shape, D::kNormal);
    CaseTensor tensor = dense(dtype, shape, D::kIndices, 30);
    // Values of both signs, so that sums carry from one word of an int64 to the other.
    if (add && dtype != KEEL_UINT8) tensor.base = -15;
    return tensor;
  };
  const auto at = static_cast<size_t>(axis);
  CaseTensor index =
      dense(dtypes.inputs[1], gathers ? to : from, D::kIndices, gathers ? from[at] : to[at]);
  CaseTensor output = gathers ? dense(dtypes.outputs[0], to, D::kNaN) : content(to);
  std::vector<keel_attribute> attributes = {int_attribute(axis)};
  if (!gathers) attributes.push_back(int_attribute(add ? 1 : 0));
  Case each = make_case(op, combination, "", {content(from), std::move(index)}, {std::move(output)},
                        std::move(attributes));
  each.id = std::string(find_schema(op)->name) + "/" + short_name(dtypes.inputs[0]) + "/" +
            short_name(dtypes.inputs[1]) + (add ? "/add/" : "/") + shape_text(from) + "_to_" +
            shape_text(to) + "/axis" + std::to_string(axis) + (suffix.empty() ? "" : "/" + suffix);
  return each;
}

// Each combination of dtypes with tensors that begin unaligned or have gaps, and along each axis.
void add_varied_moves(keel_op_id op, uint32_t combination, bool add, std::vector<Case>* cases) {
  const auto push = [&](const Shape& from, const Shape& to, int64_t axis, const char* suffix) {
    cases->push_back(moved_case(op, combination, from, to, axis, add, suffix));
    return &cases->back();
  };
  const bool gathers = op == KEEL_OP_GATHER;
  Case* each = push({9, 33}, {21, 33}, 0, "varied/unaligned");
  each->inputs[0] = shifted(each->inputs[0], 1);
  each->inputs[1] = shifted(each->inputs[1], 1);
  each->outputs[0] = shifted(each->outputs[0], 3);
  // Whole rows, where one tensor alone keeps wide units from being used.
  const Shape rows_from = {17, 64};
  const Shape rows_to = {23, 64};
  each = push(rows_from, rows_to, 0, "varied/rows_x_unaligned");
  each->inputs[1].strides = {1, 0};
  each->inputs[0] = shifted(each->inputs[0], 1 + combination % 3);
  each->strided = true;
  each = push(rows_from, rows_to, 0, "varied/rows_y_unaligned");
  each->inputs[1].strides = {1, 0};
  each->outputs[0] = shifted(each->outputs[0], 1 + combination % 3);
  each->strided = true;
  each = push({5, 19, 6}, {5, 8, 6}, 1, "varied/padded");
  each->inputs[0] = padded(each->inputs[0], 1);
  each->inputs[1] = padded(each->inputs[1], 2);
  each->outputs[0] = padded(each->outputs[0], 3);
  each->strided = true;
  each = push({5, 3, 19}, {5, 3, 27}, 2, "varied/transposed");
  each->inputs[0] = transposed(each->inputs[0]);
  (gathers ? each->inputs[1] : each->outputs[0]) =
      transposed(gathers ? each->inputs[1] : each->outputs[0]);
  each->strided = true;
}

// More rows than 16 bits count, on either side, half of them past those, and rows longer than a
// block.
void add_far_moves(keel_op_id op, bool add, std::vector<Case>* cases) {
  constexpr uint32_t kBytesByIndex = 8;  // uint8 by int32
  const auto push = [&](uint32_t combination, const Shape& from, const Shape& to, int64_t axis) {
    cases->push_back(moved_case(op, combination, from, to, axis, add, ""));
    cases->back().profile = Profile::kQuick;
  };
  // Scatter walks the whole axis for each line, and Mesa's software driver ends loops after 65,535
  // rounds.
  if (op == KEEL_OP_GATHER) push(0, {131'101, 1}, {300, 1}, 0);
  push(0, {300, 1}, {131'101, 1}, 0);
  push(9, {3, 5003}, {7, 5003}, 0);
  push(1, {2, 4099}, {2, 515}, 1);
  push(kBytesByIndex, {2, 515}, {2, 4099}, 1);
}

std::vector<Case> moved_cases(keel_op_id op) {
  std::vector<Case> cases;
  const auto combinations = static_cast<uint32_t>(find_schema(op)->dtypes.size());
  const std::vector<bool> adds =
      op == KEEL_OP_GATHER ? std::vector<bool>{false} : std::vector<bool>{false, true};
  for (const bool add : adds) {
    for (uint32_t c = 0; c < combinations; ++c) {
      cases.push_back(moved_case(op, c, {7, 33}, {19, 33}, 0, add, ""));
      add_varied_moves(op, c, add, &cases);
    }
    add_far_moves(op, add, &cases);
    for (const uint32_t c : {0U, 1U, 9U}) {  // float32 and bfloat16 by int32, float32 by int64
      const auto push = [&](const Shape& from, const Shape& to, int64_t axis,
                            const std::string& suffix = "") -> Case* {
        cases.push_back(moved_case(op, c, from, to, axis, add, suffix));
        return &cases.back();
      };
      push({11}, {300}, 0);
      push({300}, {11}, 0);
      push({5, 4, 3}, {5, 9, 3}, 1);
      push({5, 4, 3}, {5, 4, 1}, 2);
      push({3, 0}, {3, 4}, 1);
      push({3, 4}, {3, 0}, 1);
      push({2, 1, 3, 1, 2, 1, 2, 3}, {2, 1, 3, 1, 5, 1, 2, 3}, 4);
      push({65, 129}, {65, 1}, 1);
      push({65, 1}, {65, 129}, 1);
      Case* each = push({33, 17}, {40, 17}, 0, "non_finite");
      each->inputs[0].distribution = D::kNonFinite;
      each = push({33, 17}, {40, 17}, 0, "some_outside");
      each->inputs[1].distribution = D::kIndices;
      each->inputs[1].base = -2;
      each->inputs[1].bound = (op == KEEL_OP_GATHER ? 33 : 40) + 4;
      each = push({33, 17}, {40, 17}, 0, "strided");
      each->inputs[0] = transposed(each->inputs[0]);
      each->inputs[1].strides = {1, 0};  // whole rows, as index_select takes them
      each->outputs[0] = padded(each->outputs[0], 3);
      each->strided = true;
      // Whole rows that begin at each alignment of an element, of a length that wide units divide.
      each = push({33, 16}, {40, 16}, 0, "odd_rows");
      each->inputs[1].strides = {1, 0};
      CaseTensor* const selected = op == KEEL_OP_GATHER ? &each->inputs[0] : &each->outputs[0];
      *selected = padded(*selected, 1);
      each->strided = true;
    }
  }
  return cases;
}

}  // namespace

std::vector<Case> reduce_cases() {
  ReduceCases cases;
  const auto combinations = static_cast<uint32_t>(cases.schema().dtypes.size());
  for (int64_t function = 0; function <= KEEL_REDUCE_FUNCTION_LOG_SUM_EXP; ++function) {
    for (uint32_t c = 0; c < combinations; ++c) {
      if (!is_tried(function, cases.schema().dtypes[c])) continue;
      cases.add(function, c, {13, 7}, 0b10);
      add_varied(&cases, function, c);
    }
    add_shapes(&cases, function);
    add_lone(&cases, function);
  }
  return cases.take();
}

std::vector<Case> gather_cases() {
  return moved_cases(KEEL_OP_GATHER);
}

std::vector<Case> scatter_cases() {
  return moved_cases(KEEL_OP_SCATTER);
}

}  // namespace keel::ops
