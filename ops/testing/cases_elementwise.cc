// SPDX-License-Identifier: Apache-2.0
// Cases of the operators with one shape for all tensors: fill, cast, add, scale, axpy, clamp, gelu,
// adamw.
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "ops/testing/case_builder.h"
#include "ops/testing/case_generators.h"

namespace keel::ops {
namespace {

using Shape = std::vector<int64_t>;
using Attributes = std::vector<keel_attribute>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Rank 0 and 8, empty, one element, primes, near powers of two, and more than one block of any
// kernel.
const Shape kShapes[] = {{},           {0},     {1},       {7},
                         {4, 0, 3},    {255},   {1025, 3}, {2, 1, 3, 1, 2, 1, 2, 3},
                         {2, 3, 5, 7}, {65536}, {262147}};
const Shape kShape = {31, 17};  // for variants

// Inputs of |shape| for one dtype combination; |distributions| has one entry per input.
std::vector<CaseTensor> inputs_of(const Schema& schema, uint32_t combination, const Shape& shape,
                                  const std::vector<Distribution>& distributions) {
  std::vector<CaseTensor> inputs;
  for (size_t i = 0; i < schema.inputs.size(); ++i) {
    inputs.push_back(dense(schema.dtypes[combination].inputs[i], shape, distributions[i]));
  }
  return inputs;
}

std::vector<CaseTensor> outputs_of(const Schema& schema, uint32_t combination, const Shape& shape) {
  std::vector<CaseTensor> outputs;
  for (size_t o = 0; o < schema.outputs.size(); ++o) {
    outputs.push_back(dense(schema.dtypes[combination].outputs[o], shape, Distribution::kNaN));
  }
  return outputs;
}

// Every shape, memory layout and in-place variant of an elementwise operator.
std::vector<Case> elementwise_cases(keel_op_id op, const std::vector<Distribution>& distributions,
                                    const Attributes& attributes) {
  const Schema& schema = *find_schema(op);
  std::vector<Case> cases;
  for (uint32_t c = 0; c < common_combinations(op); ++c) {
    const auto add = [&](const std::string& suffix, std::vector<CaseTensor> inputs,
                         std::vector<CaseTensor> outputs) {
      cases.push_back(make_case(op, c, suffix, std::move(inputs), std::move(outputs), attributes));
    };
    for (const Shape& shape : kShapes) {
      add(shape_text(shape), inputs_of(schema, c, shape, distributions),
          outputs_of(schema, c, shape));
    }
    const std::vector<CaseTensor> inputs = inputs_of(schema, c, kShape, distributions);
    const std::vector<CaseTensor> outputs = outputs_of(schema, c, kShape);
    const std::string text = shape_text(kShape);
    add(text, inputs, outputs);

    // In place: each allowed pair alone, and with several outputs all at once.
    Case all = make_case(op, c, text, inputs, outputs, attributes);
    for (uint32_t o = 0; o < outputs.size(); ++o) {
      bool first = true;
      for (uint32_t i = 0; i < inputs.size(); ++i) {
        if ((schema.outputs[o].in_place >> i & 1u) == 0) continue;
        if (inputs[i].dtype != outputs[o].dtype) continue;
        cases.push_back(in_place(make_case(op, c, text, inputs, outputs, attributes), o, i));
        if (first) all = in_place(std::move(all), o, i);
        first = false;
      }
    }
    if (outputs.size() > 1) cases.push_back(std::move(all));

    // Layouts: unaligned start (of inputs alone, and of everything), padded rows, transposed and
    // broadcast inputs.
    std::vector<CaseTensor> moved_inputs = inputs;
    std::vector<CaseTensor> moved_outputs = outputs;
    for (size_t i = 0; i < inputs.size(); ++i) moved_inputs[i] = shifted(inputs[i], 2 * i + 1);
    for (CaseTensor& output : moved_outputs) output = shifted(output, 3);
    if (!inputs.empty()) add(text + "/inputs_unaligned", moved_inputs, outputs);
    add(text + "/all_unaligned", moved_inputs, moved_outputs);
    for (size_t o = 0; o < outputs.size(); ++o) moved_outputs[o] = padded(outputs[o], 5);
    add(text + "/output_padded", inputs, moved_outputs);
    if (inputs.empty()) continue;
    moved_inputs = inputs;
    moved_inputs[0] = padded(inputs[0], 3);
    add(text + "/input_padded", moved_inputs, outputs);
    moved_inputs[0] = transposed(inputs[0]);
    add(text + "/input_transposed", moved_inputs, outputs);
    moved_inputs[0] = broadcast(inputs[0]);
    add(text + "/input_broadcast", moved_inputs, outputs);
  }
  return cases;
}

// Adds one case per dtype combination, with the given distributions and attributes.
void add_variant(std::vector<Case>* cases, keel_op_id op, const std::string& name,
                 const std::vector<Distribution>& distributions, const Attributes& attributes) {
  const Schema& schema = *find_schema(op);
  const Shape shape = {1009};
  for (uint32_t c = 0; c < common_combinations(op); ++c) {
    cases->push_back(make_case(op, c, shape_text(shape) + "/" + name,
                               inputs_of(schema, c, shape, distributions),
                               outputs_of(schema, c, shape), attributes));
  }
}

// Cases of gelu or its gradient in both forms; the arguments are distributions of the inputs.
std::vector<Case> gelu_cases_of(keel_op_id op, const std::vector<Distribution>& usual,
                                const std::vector<Distribution>& saturated,
                                const std::vector<Distribution>& logits,
                                const std::vector<Distribution>& some_nan,
                                const std::vector<Distribution>& extreme) {
  std::vector<Case> cases;
  for (const bool erf : {false, true}) {
    const Attributes form = {int_attribute(erf ? 1 : 0)};
    std::vector<Case> of_form = elementwise_cases(op, usual, form);
    add_variant(&of_form, op, "saturated", saturated, form);
    add_variant(&of_form, op, "logits", logits, form);
    add_variant(&of_form, op, "some_nan", some_nan, form);
    add_variant(&of_form, op, "extreme", extreme, form);
    for (Case& each : of_form) {
      // Out of float16's range.
      if (each.inputs[0].dtype == KEEL_FLOAT16 && each.id.ends_with("/saturated")) continue;
      if (erf) each.id += "/erf";  // the older form keeps its ids
      cases.push_back(std::move(each));
    }
  }
  return cases;
}

}  // namespace

std::vector<Case> fill_cases() {
  std::vector<Case> cases = elementwise_cases(KEEL_OP_FILL, {}, {float_attribute(3)});
  const std::pair<const char*, double> values[] = {
      {"zero", 0},         {"fraction", 2.75},       {"pi", 3.14159265358979},
      {"largest_u8", 255}, {"negative", -17.5},      {"large", 1e9},
      {"tiny", 0x1p-100},  {"infinity", -kInfinity}, {"nan", std::nan("")}};
  const Schema& schema = *find_schema(KEEL_OP_FILL);
  for (uint32_t c = 0; c < schema.dtypes.size(); ++c) {
    const keel_dtype dtype = schema.dtypes[c].outputs[0];
    const bool integer = dtype == KEEL_INT32 || dtype == KEEL_INT64 || dtype == KEEL_UINT8;
    for (const auto& [name, value] : values) {
      if (integer && !std::isfinite(value)) continue;
      if (dtype == KEEL_UINT8 && (value < 0 || value > 255)) continue;
      cases.push_back(make_case(KEEL_OP_FILL, c, std::string("67/") + name, {},
                                outputs_of(schema, c, {67}), {float_attribute(value)}));
    }
  }
  return cases;
}

// Each pair of dtypes, on the values that are hard to convert: dense, and in one other layout.
void add_conversions(std::vector<Case>* cases) {
  const Schema& schema = *find_schema(KEEL_OP_CAST);
  for (uint32_t c = 0; c < schema.dtypes.size(); ++c) {
    const keel_dtype to = schema.dtypes[c].outputs[0];
    const auto add = [&](const Shape& shape, const std::string& layout, const auto& lay_out) {
      CaseTensor x = dense(schema.dtypes[c].inputs[0], shape, Distribution::kConversions, to);
      CaseTensor y = dense(to, shape, Distribution::kNaN);
      lay_out(&x, &y);
      cases->push_back(
          make_case(KEEL_OP_CAST, c, "conversions/" + shape_text(shape) + layout, {x}, {y}));
    };
    add({523}, "", [](CaseTensor*, CaseTensor*) {});
    switch (c % 5) {
      case 0:
        add(kShape, "/input_padded", [](CaseTensor* x, CaseTensor*) { *x = padded(*x, 3); });
        break;
      case 1:
        add(kShape, "/input_transposed", [](CaseTensor* x, CaseTensor*) { *x = transposed(*x); });
        break;
      case 2:
        add({17, 131}, "/input_broadcast", [](CaseTensor* x, CaseTensor*) { *x = broadcast(*x); });
        break;
      case 3:
        add(kShape, "/output_padded", [](CaseTensor*, CaseTensor* y) { *y = padded(*y, 5); });
        break;
      default:
        add({2, 3, 1, 5, 2, 7, 2}, "/transposed", [](CaseTensor* x, CaseTensor* y) {
          *x = transposed(*x);
          *y = shifted(padded(*y, 1), 3);
        });
    }
  }
}

std::vector<Case> cast_cases() {
  std::vector<Case> cases;
  for (Case& each : elementwise_cases(KEEL_OP_CAST, {Distribution::kWide}, {})) {
    if (each.inputs[0].dtype == KEEL_INT32) each.inputs[0].distribution = Distribution::kIntegers;
    cases.push_back(std::move(each));
  }
  std::vector<Case> variants;
  add_variant(&variants, KEEL_OP_CAST, "ties", {Distribution::kTies}, {});
  add_variant(&variants, KEEL_OP_CAST, "special", {Distribution::kSpecial}, {});
  add_variant(&variants, KEEL_OP_CAST, "subnormal", {Distribution::kSubnormal}, {});
  for (Case& each : variants) {
    // Integers have no such values, and casts to integers leave NaN and overflow undefined.
    if (each.inputs[0].dtype == KEEL_INT32 || each.outputs[0].dtype == KEEL_INT32) continue;
    cases.push_back(std::move(each));
  }
  add_conversions(&cases);
  return cases;
}

std::vector<Case> add_cases() {
  using D = Distribution;
  std::vector<Case> cases = elementwise_cases(KEEL_OP_ADD, {D::kNormal, D::kNormal}, {});
  add_variant(&cases, KEEL_OP_ADD, "wide", {D::kWide, D::kWide}, {});
  add_variant(&cases, KEEL_OP_ADD, "special", {D::kSpecial, D::kSpecial}, {});
  add_variant(&cases, KEEL_OP_ADD, "subnormal", {D::kSubnormal, D::kSubnormal}, {});
  return cases;
}

std::vector<Case> scale_cases() {
  using D = Distribution;
  std::vector<Case> cases = elementwise_cases(KEEL_OP_SCALE, {D::kNormal}, {float_attribute(-1.7)});
  add_variant(&cases, KEEL_OP_SCALE, "zero", {D::kNormal}, {float_attribute(0)});
  add_variant(&cases, KEEL_OP_SCALE, "special", {D::kSpecial}, {float_attribute(1.5)});
  add_variant(&cases, KEEL_OP_SCALE, "subnormal", {D::kSubnormal}, {float_attribute(0.75)});
  return cases;
}

std::vector<Case> axpy_cases() {
  using D = Distribution;
  std::vector<Case> cases =
      elementwise_cases(KEEL_OP_AXPY, {D::kNormal, D::kNormal}, {float_attribute(0.3)});
  add_variant(&cases, KEEL_OP_AXPY, "wide", {D::kWide, D::kWide}, {float_attribute(-1.1)});
  add_variant(&cases, KEEL_OP_AXPY, "zero", {D::kNormal, D::kNormal}, {float_attribute(0)});
  add_variant(&cases, KEEL_OP_AXPY, "non_finite", {D::kNonFinite, D::kNonFinite},
              {float_attribute(2)});
  return cases;
}

std::vector<Case> clamp_cases() {
  using D = Distribution;
  const Attributes bounds = {float_attribute(-0.5), float_attribute(0.75)};
  std::vector<Case> cases = elementwise_cases(KEEL_OP_CLAMP, {D::kNormal}, bounds);
  add_variant(&cases, KEEL_OP_CLAMP, "special", {D::kSpecial}, bounds);
  add_variant(&cases, KEEL_OP_CLAMP, "non_finite", {D::kNonFinite},
              {float_attribute(-kInfinity), float_attribute(kInfinity)});
  add_variant(&cases, KEEL_OP_CLAMP, "crossed", {D::kNormal},
              {float_attribute(0.75), float_attribute(-0.5)});
  // Halfway between float32 numbers, and beyond the range of 16 bits.
  add_variant(&cases, KEEL_OP_CLAMP, "fine", {D::kNormal},
              {float_attribute(0.1), float_attribute(0.1 + 0x1p-30)});
  add_variant(&cases, KEEL_OP_CLAMP, "wide", {D::kWide},
              {float_attribute(-1e30), float_attribute(1e300)});
  return cases;
}

std::vector<Case> clamp_backward_cases() {
  using D = Distribution;
  const Attributes bounds = {float_attribute(-0.5), float_attribute(0.75)};
  std::vector<Case> cases =
      elementwise_cases(KEEL_OP_CLAMP_BACKWARD, {D::kNormal, D::kNormal}, bounds);
  add_variant(&cases, KEEL_OP_CLAMP_BACKWARD, "special", {D::kSpecial, D::kNormal}, bounds);
  // An element that clamp cut gets 0, whatever its gradient.
  add_variant(&cases, KEEL_OP_CLAMP_BACKWARD, "non_finite", {D::kSomeNaN, D::kNonFinite}, bounds);
  // Elements on a bound pass.
  add_variant(&cases, KEEL_OP_CLAMP_BACKWARD, "on_bounds", {D::kPowerOfTwo, D::kNormal},
              {float_attribute(0.5), float_attribute(2)});
  return cases;
}

std::vector<Case> gelu_cases() {
  using D = Distribution;
  return gelu_cases_of(KEEL_OP_GELU, {D::kNormal}, {D::kWide}, {D::kLogits}, {D::kSomeNaN},
                       {D::kExtreme});
}

std::vector<Case> gelu_backward_cases() {
  using D = Distribution;
  return gelu_cases_of(KEEL_OP_GELU_BACKWARD, {D::kNormal, D::kNormal}, {D::kWide, D::kNormal},
                       {D::kLogits, D::kNormal}, {D::kSomeNaN, D::kSomeNaN},
                       {D::kExtreme, D::kNormal});
}

std::vector<Case> adamw_cases() {
  using D = Distribution;
  const std::vector<D> inputs = {D::kNormal, D::kNormal, D::kUniform, D::kPositive};
  const auto attributes = [](double lr, double beta1, double weight_decay, int64_t step,
                             double grad_scale) {
    return Attributes{float_attribute(lr),           float_attribute(beta1),
                      float_attribute(0.999),        float_attribute(1e-8),
                      float_attribute(weight_decay), int_attribute(step),
                      float_attribute(grad_scale)};
  };
  std::vector<Case> cases =
      elementwise_cases(KEEL_OP_ADAMW, inputs, attributes(0.01, 0.9, 0.1, 3, 1));
  const auto add = [&](const char* name, const Attributes& values) {
    add_variant(&cases, KEEL_OP_ADAMW, name, inputs, values);
  };
  add("first_step", attributes(0.01, 0.9, 0.1, 1, 1));
  add("late_step", attributes(0.01, 0.9, 0.1, 1000000, 1));
  add("scaled_gradient", attributes(0.01, 0.9, 0.1, 2, 1.0 / 1024));
  add("no_decay", attributes(0.01, 0.9, 0, 2, 1));
  add("no_momentum", attributes(0.01, 0, 0.1, 2, 1));
  add("no_learning", attributes(0, 0.9, 0.1, 2, 1));
  // State of a first step, so that 1 - beta, 1 - beta^t and eps visibly affect the result.
  const auto add_fresh = [&](const char* name, D gradient, const Attributes& values) {
    add_variant(&cases, KEEL_OP_ADAMW, name, {D::kZeroes, gradient, D::kZeroes, D::kZeroes},
                values);
  };
  add_fresh("fresh", D::kNormal, attributes(1, 0.9, 0, 1, 1));
  add_fresh("fresh/late_step", D::kNormal, attributes(1, 0.9, 0, 1000, 1));
  add_fresh("fresh/faint", D::kFaint, attributes(1, 0.9, 0, 1, 1));
  add_fresh("fresh/zeroes", D::kZeroes, attributes(1, 0.9, 0, 1, 1));
  for (Case& each : cases) {
    // Ids contain only the first dtype.
    if (each.inputs[1].dtype == KEEL_BFLOAT16) each.id += "/g_bf16";
    if (each.inputs[1].dtype == KEEL_FLOAT16) each.id += "/g_f16";
  }
  return cases;
}

}  // namespace keel::ops
