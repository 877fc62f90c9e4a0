// SPDX-License-Identifier: Apache-2.0
// Cases of elementwise: every function by dtype, layout, missing tensor and content.
#include <algorithm>
#include <iterator>
#include <keel/plugin/numbers.hpp>
#include <span>
#include <utility>

#include "ops/testing/case_builder.h"
#include "ops/testing/case_generators.h"

namespace keel::ops {
namespace {

using D = Distribution;
using Shape = std::vector<int64_t>;

// What a function takes and how it is tried.
struct Function {
  int64_t number;
  const char* name;
  uint32_t operands;  // of a, b and c
  D content[3];       // of float operands
  bool takes_floats;
  bool takes_integers;  // computes in int64 if all tensors are integers
  bool is_exact;        // rounds once: tried with special values and 16-bit types in full
};

#define KEEL_FUNCTION(NAME) \
  KEEL_ELEMENTWISE_FUNCTION_##NAME, name_of(KEEL_ELEMENTWISE_FUNCTION_##NAME)

constexpr const char* name_of(int64_t number) {
#define KEEL_NAME(NAME, name) #name,
  constexpr const char* kNames[] = {KEEL_FOR_EACH_ELEMENTWISE_FUNCTION(KEEL_NAME)};
#undef KEEL_NAME
  return kNames[number];
}

constexpr Function kFunctions[] = {
    {KEEL_FUNCTION(COPY), 1, {D::kNormal}, true, true, true},
    {KEEL_FUNCTION(ARANGE), 0, {}, true, true, false},
    {KEEL_FUNCTION(NEG), 1, {D::kNormal}, true, true, true},
    {KEEL_FUNCTION(ABS), 1, {D::kNormal}, true, true, true},
    {KEEL_FUNCTION(SIGN), 1, {D::kNormal}, true, true, false},
    {KEEL_FUNCTION(FLOOR), 1, {D::kEighths}, true, true, true},
    {KEEL_FUNCTION(CEIL), 1, {D::kEighths}, true, true, true},
    {KEEL_FUNCTION(ROUND), 1, {D::kEighths}, true, true, true},
    {KEEL_FUNCTION(TRUNC), 1, {D::kEighths}, true, true, true},
    {KEEL_FUNCTION(SQRT), 1, {D::kPositive}, true, false, false},
    {KEEL_FUNCTION(RSQRT), 1, {D::kPositive}, true, false, false},
    {KEEL_FUNCTION(RECIPROCAL), 1, {D::kNormal}, true, false, false},
    {KEEL_FUNCTION(EXP), 1, {D::kLogits}, true, false, false},
    {KEEL_FUNCTION(EXP2), 1, {D::kLogits}, true, false, false},
    {KEEL_FUNCTION(EXPM1), 1, {D::kNormal}, true, false, false},
    {KEEL_FUNCTION(LOG), 1, {D::kPositive}, true, false, false},
    {KEEL_FUNCTION(LOG2), 1, {D::kPositive}, true, false, false},
    {KEEL_FUNCTION(LOG1P), 1, {D::kPositive}, true, false, false},
    {KEEL_FUNCTION(SIN), 1, {D::kLogits}, true, false, false},
    {KEEL_FUNCTION(COS), 1, {D::kLogits}, true, false, false},
    {KEEL_FUNCTION(TANH), 1, {D::kNormal}, true, false, false},
    {KEEL_FUNCTION(SIGMOID), 1, {D::kLogits}, true, false, false},
    {KEEL_FUNCTION(RELU), 1, {D::kNormal}, true, true, true},
    {KEEL_FUNCTION(SILU), 1, {D::kLogits}, true, false, false},
    {KEEL_FUNCTION(ERF), 1, {D::kNormal}, true, false, false},
    {KEEL_FUNCTION(GELU), 1, {D::kLogits}, true, false, false},
    {KEEL_FUNCTION(IS_NAN), 1, {D::kSomeNaN}, true, true, true},
    {KEEL_FUNCTION(LOGICAL_NOT), 1, {D::kIndices}, true, true, true},
    {KEEL_FUNCTION(BITWISE_NOT), 1, {}, false, true, false},
    {KEEL_FUNCTION(ADD), 2, {D::kNormal, D::kNormal}, true, true, true},
    {KEEL_FUNCTION(SUB), 2, {D::kNormal, D::kNormal}, true, true, true},
    {KEEL_FUNCTION(MUL), 2, {D::kNormal, D::kNormal}, true, true, true},
    {KEEL_FUNCTION(DIV), 2, {D::kNormal, D::kPositive}, true, true, false},
    {KEEL_FUNCTION(FLOOR_DIV), 2, {D::kEighths, D::kPowerOfTwo}, true, true, false},
    {KEEL_FUNCTION(REMAINDER), 2, {D::kEighths, D::kPowerOfTwo}, true, true, false},
    {KEEL_FUNCTION(FMOD), 2, {D::kEighths, D::kPowerOfTwo}, true, true, false},
    {KEEL_FUNCTION(POW), 2, {D::kPositive, D::kNormal}, true, true, false},
    {KEEL_FUNCTION(MAXIMUM), 2, {D::kNormal, D::kSomeNaN}, true, true, true},
    {KEEL_FUNCTION(MINIMUM), 2, {D::kSomeNaN, D::kNormal}, true, true, true},
    {KEEL_FUNCTION(ATAN2), 2, {D::kNormal, D::kNormal}, true, false, false},
    {KEEL_FUNCTION(EQ), 2, {D::kPowerOfTwo, D::kPowerOfTwo}, true, true, true},
    {KEEL_FUNCTION(NE), 2, {D::kPowerOfTwo, D::kPowerOfTwo}, true, true, true},
    {KEEL_FUNCTION(LT), 2, {D::kPowerOfTwo, D::kPowerOfTwo}, true, true, true},
    {KEEL_FUNCTION(LE), 2, {D::kPowerOfTwo, D::kPowerOfTwo}, true, true, true},
    {KEEL_FUNCTION(GT), 2, {D::kPowerOfTwo, D::kPowerOfTwo}, true, true, true},
    {KEEL_FUNCTION(GE), 2, {D::kPowerOfTwo, D::kPowerOfTwo}, true, true, true},
    {KEEL_FUNCTION(LOGICAL_AND), 2, {D::kNormal, D::kIndices}, true, true, true},
    {KEEL_FUNCTION(LOGICAL_OR), 2, {D::kIndices, D::kSomeNaN}, true, true, true},
    {KEEL_FUNCTION(LOGICAL_XOR), 2, {D::kNormal, D::kIndices}, true, true, true},
    {KEEL_FUNCTION(BITWISE_AND), 2, {}, false, true, false},
    {KEEL_FUNCTION(BITWISE_OR), 2, {}, false, true, false},
    {KEEL_FUNCTION(BITWISE_XOR), 2, {}, false, true, false},
    {KEEL_FUNCTION(TANH_BACKWARD), 2, {D::kNormal, D::kUniform}, true, false, false},
    {KEEL_FUNCTION(SIGMOID_BACKWARD), 2, {D::kNormal, D::kPositive}, true, false, false},
    {KEEL_FUNCTION(THRESHOLD_BACKWARD), 3, {D::kNormal, D::kNormal, D::kNormal}, true, true, true},
    {KEEL_FUNCTION(SILU_BACKWARD), 2, {D::kNormal, D::kLogits}, true, false, false},
    {KEEL_FUNCTION(GELU_BACKWARD), 2, {D::kNormal, D::kLogits}, true, false, false},
    {KEEL_FUNCTION(CLAMP), 3, {D::kNormal, D::kUniform, D::kUniform}, true, true, true},
    {KEEL_FUNCTION(WHERE), 3, {D::kIndices, D::kNormal, D::kNormal}, true, true, true},
    {KEEL_FUNCTION(ADDCMUL), 3, {D::kNormal, D::kNormal, D::kNormal}, true, true, false},
    {KEEL_FUNCTION(ADDCDIV), 3, {D::kNormal, D::kNormal, D::kPositive}, true, true, false},
    {KEEL_FUNCTION(LERP), 3, {D::kNormal, D::kNormal, D::kUniform}, true, false, false},
    {KEEL_FUNCTION(UNIFORM), 0, {}, true, false, false},
    {KEEL_FUNCTION(NORMAL), 0, {}, true, false, false},
    {KEEL_FUNCTION(BERNOULLI), 1, {D::kPositive}, true, false, false},
};
static_assert(std::size(kFunctions) == KEEL_ELEMENTWISE_FUNCTION_BERNOULLI + 1);

// Attributes besides the function; the numbers are exact in the 16-bit types and as integers.
struct Numbers {
  double alpha = 1;
  double a = 3;
  double b = 2;
  double c = 4;
  int64_t seed = 0;
  int64_t offset = 0;
};

// Whether all tensors of the combination are integers, for as many operands as the function has.
bool all_integers(const Function& function, const DtypeCombination& dtypes) {
  bool all = kit::is_integer(dtypes.outputs[0]);
  for (uint32_t i = 0; i < function.operands; ++i) all = all && kit::is_integer(dtypes.inputs[i]);
  return all;
}

// Integer content for operand |i|: positive divisors and exponents; small numbers elsewhere, so
// that int64 results fit the reference's float64; both truth values where they matter.
CaseTensor integers(const Function& function, uint32_t i, keel_dtype dtype, const Shape& shape) {
  const bool divides = (function.number >= KEEL_ELEMENTWISE_FUNCTION_DIV &&
                        function.number <= KEEL_ELEMENTWISE_FUNCTION_POW && i == 1) ||
                       (function.number == KEEL_ELEMENTWISE_FUNCTION_ADDCDIV && i == 2);
  CaseTensor tensor = dense(dtype, shape, D::kIndices, divides ? 6 : 100);
  tensor.base = divides ? 1 : dtype == KEEL_UINT8 ? 0 : -50;
  if (function.number == KEEL_ELEMENTWISE_FUNCTION_POW && i == 0) tensor.bound = 60;
  if (function.content[i] == D::kIndices) {
    tensor.bound = 2;
    tensor.base = 0;
  }
  return tensor;
}

// Whether an earlier combination has the same dtypes for the operands that the function has.
bool is_repeated(const Function& function, std::span<const DtypeCombination> dtypes, uint32_t c) {
  return std::ranges::any_of(dtypes.first(c), [&](const DtypeCombination& earlier) {
    return earlier.outputs[0] == dtypes[c].outputs[0] &&
           std::equal(earlier.inputs, earlier.inputs + function.operands, dtypes[c].inputs);
  });
}

// Whether the function gives 0 or 1.
bool gives_truth(int64_t number) {
  return (number >= KEEL_ELEMENTWISE_FUNCTION_EQ &&
          number <= KEEL_ELEMENTWISE_FUNCTION_LOGICAL_XOR) ||
         number == KEEL_ELEMENTWISE_FUNCTION_IS_NAN ||
         number == KEEL_ELEMENTWISE_FUNCTION_LOGICAL_NOT;
}

// Whether truncated float results of the cases are within the integer type |dtype|.
bool fits_integers(int64_t number, keel_dtype dtype) {
  if (gives_truth(number)) return true;
  return dtype == KEEL_INT64 &&
         (number == KEEL_ELEMENTWISE_FUNCTION_COPY || number == KEEL_ELEMENTWISE_FUNCTION_ADD ||
          number == KEEL_ELEMENTWISE_FUNCTION_MUL ||
          (number >= KEEL_ELEMENTWISE_FUNCTION_FLOOR && number <= KEEL_ELEMENTWISE_FUNCTION_TRUNC));
}

// Whether flushed subnormals change the function's value by no more than themselves. The product
// with an infinity becomes NaN.
bool takes_subnormals(const Function& function) {
  return function.is_exact && !gives_truth(function.number) &&
         function.number != KEEL_ELEMENTWISE_FUNCTION_MUL &&
         function.number != KEEL_ELEMENTWISE_FUNCTION_WHERE &&
         function.number != KEEL_ELEMENTWISE_FUNCTION_THRESHOLD_BACKWARD &&
         function.number != KEEL_ELEMENTWISE_FUNCTION_FLOOR &&
         function.number != KEEL_ELEMENTWISE_FUNCTION_CEIL;
}

class ElementwiseCases {
 public:
  // Adds a case over dense tensors; |absent|: bit i leaves operand i out. Returns the case.
  Case* add(const Function& function, uint32_t combination, const std::string& suffix,
            const Shape& shape, const Numbers& numbers = {}, uint32_t absent_mask = 0) {
    const DtypeCombination& dtypes = schema_.dtypes[combination];
    std::vector<CaseTensor> inputs(3, absent());
    std::string names;
    keel_dtype last = KEEL_DTYPE_INVALID;
    for (uint32_t i = 0; i < function.operands; ++i) {
      if ((absent_mask >> i & 1) != 0) continue;
      const keel_dtype dtype = dtypes.inputs[i];
      inputs[i] = kit::is_integer(dtype) ? integers(function, i, dtype, shape)
                                         : dense(dtype, shape, function.content[i], /*bound=*/2);
      if (dtype != last) names += (names.empty() ? "" : "_") + std::string(short_name(dtype));
      last = dtype;
    }
    Case each = make_case(
        KEEL_OP_ELEMENTWISE, combination, suffix, inputs,
        {dense(dtypes.outputs[0], shape, D::kNaN)},
        {int_attribute(function.number), float_attribute(numbers.alpha), float_attribute(numbers.a),
         float_attribute(numbers.b), float_attribute(numbers.c), int_attribute(numbers.seed),
         int_attribute(numbers.offset)});
    // "elementwise/f32_u8/lt/257": the first and the last dtype, then all where they differ more.
    const std::string to = short_name(dtypes.outputs[0]);
    const std::string from = names.substr(0, names.find('_'));
    const bool is_mixed = names.find('_') != std::string::npos;
    each.id = "elementwise/" + (from.empty() || from == to ? to : from + "_" + to) + "/" +
              function.name + "/" + (is_mixed ? names + "/" : "") + shape_text(shape) +
              (suffix.empty() ? "" : "/" + suffix);
    cases_.push_back(std::move(each));
    return &cases_.back();
  }

  std::vector<Case> take() { return std::move(cases_); }
  const Schema& schema() const { return schema_; }

 private:
  const Schema& schema_ = *find_schema(KEEL_OP_ELEMENTWISE);
  std::vector<Case> cases_;
};

// Combination numbers of the table's row that cases name.
enum Combination : uint32_t { kF32, kBf16, kF16, kF64, kI64, kI32 };

void add_missing(ElementwiseCases* cases, const Function& function) {
  if (function.operands < 2) return;
  static constexpr const char* kNames[] = {"a_number", "b_number", "c_number"};
  for (uint32_t i = 0; i < function.operands; ++i) {
    Numbers numbers;
    numbers.a = numbers.b = numbers.c = 0.5;
    const uint32_t combination = function.takes_floats ? kF32 : kI64;
    if (!function.takes_floats) numbers.a = numbers.b = numbers.c = 3;
    cases->add(function, combination, kNames[i], {129}, numbers, 1U << i);
  }
}

// One strided case: a transposed, b one row for all, c padded, y padded.
void add_strided(ElementwiseCases* cases, const Function& function, uint32_t combination) {
  Case* const each = cases->add(function, combination, "strided", {31, 17});
  if (function.operands > 0) each->inputs[0] = transposed(each->inputs[0]);
  if (function.operands > 1) each->inputs[1] = broadcast(each->inputs[1]);
  if (function.operands > 2) each->inputs[2] = padded(each->inputs[2], 3);
  each->outputs[0] = padded(each->outputs[0], 5);
  each->strided = true;
}

// Layouts that collapse to one axis, to several, or to none.
void add_layouts(ElementwiseCases* cases, const Function& function, uint32_t combination) {
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{4, 0, 3}, Shape{1025, 3},
                             Shape{2, 1, 3, 1, 2, 1, 2, 3}, Shape{65537}}) {
    cases->add(function, combination, "", shape);
  }
  const Shape shape = {2, 3, 2, 5, 2, 3, 1, 7};
  Case* each = cases->add(function, combination, "reversed", shape);
  for (CaseTensor& input : each->inputs) {
    if (input.present) input = transposed(input);
  }
  each->strided = true;
  each = cases->add(function, combination, "output_reversed", shape);
  each->outputs[0] = transposed(each->outputs[0]);
  each->strided = true;
  each = cases->add(function, combination, "broadcast_axes", shape);
  for (uint32_t i = 0; i < function.operands; ++i) {
    for (size_t axis = i; axis < shape.size(); axis += 3) each->inputs[i].strides[axis] = 0;
  }
  each->strided = true;
  each = cases->add(function, combination, "scalars", {33, 65});
  for (uint32_t i = 1; i < function.operands; ++i) each->inputs[i].strides = {0, 0};
  each->strided = function.operands > 1;
  each = cases->add(function, combination, "columns", {67, 33});
  if (function.operands > 1) each->inputs[1].strides = {1, 0};
  each->strided = function.operands > 1;
  each = cases->add(function, combination, "unaligned", {1031});
  for (uint32_t i = 0; i < function.operands; ++i) {
    each->inputs[i] = shifted(each->inputs[i], 2 * i + 1);
  }
  each->outputs[0] = shifted(each->outputs[0], 3);
  each = cases->add(function, combination, "every_third", {257});
  for (uint32_t i = 0; i < function.operands; ++i) each->inputs[i].strides = {3};
  each->outputs[0].strides = {3};
  each->strided = true;
  for (uint32_t i = 0; i < function.operands; ++i) {
    const DtypeCombination& dtypes = cases->schema().dtypes[combination];
    if (dtypes.inputs[i] != dtypes.outputs[0]) continue;
    each = cases->add(function, combination, "", {31, 19});
    *each = in_place(std::move(*each), 0, i);
  }
}

void add_random(ElementwiseCases* cases, const Function& function) {
  const std::pair<int64_t, int64_t> keys[] = {
      {12345, 0}, {int64_t{9} << 32, 7}, {-2, (int64_t{1} << 32) - 2}, {1, int64_t{1} << 40}};
  for (const auto& [seed, offset] : keys) {
    Numbers numbers;
    numbers.seed = seed;
    numbers.offset = offset;
    numbers.a = 0.25;
    for (const uint32_t combination : {kF32, kBf16}) {
      cases->add(function, combination,
                 "seed" + std::to_string(seed) + "_offset" + std::to_string(offset), {1027},
                 numbers);
    }
  }
  add_strided(cases, function, kF32);
}

// A count from which kernels may take another path, with a tail. One case for each function, since
// a chip may compile large calls of a function by themselves.
void add_large(ElementwiseCases* cases, const Function& function) {
  const uint32_t combination = function.takes_floats ? kF32 : kI64;
  Case* const each = cases->add(function, combination, "", {131'101});
  each->profile = Profile::kQuick;
}

// Extents that no power of two divides, beyond those that 16 bits count: kernels find an element's
// place by divisions.
void add_far_places(ElementwiseCases* cases, const Function& function) {
  const auto add = [&](const char* suffix, const Shape& shape, const auto& lay_out) {
    Case* const each = cases->add(function, kF32, suffix, shape);
    lay_out(each);
    each->strided = true;
    each->profile = Profile::kQuick;
  };
  add("a_transposed", {21'851, 3},
      [](Case* each) { each->inputs[0] = transposed(each->inputs[0]); });
  add("a_padded", {3, 21'851}, [](Case* each) { each->inputs[0] = padded(each->inputs[0], 3); });
  add("y_padded", {65'601, 1}, [](Case* each) { each->outputs[0] = padded(each->outputs[0], 1); });
  add("y_transposed", {641, 103},
      [](Case* each) { each->outputs[0] = transposed(each->outputs[0]); });
}

// Each layout in each combination of dtypes: kernels may choose units by the size of an element,
// and by the alignment of any tensor.
void add_layouts_of_dtypes(ElementwiseCases* cases, uint32_t combination) {
  constexpr int64_t kTried[] = {KEEL_ELEMENTWISE_FUNCTION_CLAMP, KEEL_ELEMENTWISE_FUNCTION_WHERE,
                                KEEL_ELEMENTWISE_FUNCTION_LT, KEEL_ELEMENTWISE_FUNCTION_ADD};
  const DtypeCombination& dtypes = cases->schema().dtypes[combination];
  const bool from_truth = dtypes.inputs[0] == KEEL_UINT8 && dtypes.inputs[1] != KEEL_UINT8;
  const bool to_truth = dtypes.outputs[0] == KEEL_UINT8 && dtypes.inputs[0] != KEEL_UINT8;
  const bool truncates = dtypes.outputs[0] == KEEL_INT64 && dtypes.inputs[1] == KEEL_FLOAT32;
  const Function& function = kFunctions[kTried[truncates ? 3 : to_truth ? 2 : from_truth ? 1 : 0]];
  static constexpr const char* kNames[] = {"a", "b", "c"};
  const Shape shapes[] = {{31, 17}, {3, 1027}, {67, 3}, {5, 16, 9}, {129, 64}};
  size_t turn = combination;
  const auto next = [&]() -> const Shape& { return shapes[turn++ % std::size(shapes)]; };
  const auto add = [&](const std::string& suffix, const Shape& shape) {
    return cases->add(function, combination, suffix, shape);
  };
  for (uint32_t i = 0; i < function.operands; ++i) {
    const std::string name = kNames[i];
    Case* each = add(name + "_unaligned", {1031});
    each->inputs[i] = shifted(each->inputs[i], 1 + combination % 3);
    each = add(name + "_transposed", next());
    each->inputs[i] = transposed(each->inputs[i]);
    each->strided = true;
    each = add(name + "_padded", next());
    each->inputs[i] = padded(each->inputs[i], 1 + i);
    each->strided = true;
    each = add(name + "_one_row", next());
    each->inputs[i] = broadcast(each->inputs[i]);
    each->strided = true;
    each = add(name + "_one_column", next());
    each->inputs[i].strides.back() = 0;
    each->strided = true;
  }
  Case* each = add("y_unaligned", {1031});
  each->outputs[0] = shifted(each->outputs[0], 1 + combination % 3);
  each = add("y_padded", next());
  each->outputs[0] = padded(each->outputs[0], 3);
  each->strided = true;
  each = add("y_transposed", next());
  each->outputs[0] = transposed(each->outputs[0]);
  each->strided = true;
  // A number in place of each tensor, beside tensors with gaps.
  for (uint32_t i = 0; i < function.operands; ++i) {
    Numbers numbers;
    numbers.a = numbers.b = numbers.c = 1;
    each = cases->add(function, combination, std::string(kNames[i]) + "_number/strided", {31, 17},
                      numbers, 1U << i);
    for (CaseTensor& input : each->inputs) {
      if (input.present) input = padded(input, 3);
    }
    each->strided = true;
  }
}

// Divisors of both signs: integers divide truncated, and by floor, and have remainders of the sign
// of either.
void add_signs(ElementwiseCases* cases, const Function& function) {
  if (function.number < KEEL_ELEMENTWISE_FUNCTION_DIV ||
      function.number > KEEL_ELEMENTWISE_FUNCTION_FMOD) {
    return;
  }
  constexpr uint32_t kI8 = 7;  // int8 throughout
  for (const uint32_t combination : {uint32_t{kI64}, uint32_t{kI32}, kI8}) {
    Case* const each = cases->add(function, combination, "negative_divisors", {263});
    each->inputs[1].base = -6;
  }
  for (const uint32_t combination : {kF32, kF64}) {
    Case* const each = cases->add(function, combination, "negative_divisors", {263});
    each->inputs[1].distribution = D::kLone;
    each->inputs[1].bound = 2;
    each->inputs[1].lone = -0.375;
    each->inputs[1].places = {0, 1};
  }
}

// Numbers outside of a function's range or at its end, infinities and NaN in each operand.
void add_range(ElementwiseCases* cases, const Function& function) {
  const auto add = [&](D content, const char* suffix, uint32_t operand) {
    const uint32_t combination = static_cast<uint32_t>(function.number) % 3 == 0 ? kBf16 : kF32;
    Case* const each = cases->add(function, combination, suffix, {509});
    each->inputs[operand].distribution = content;
  };
  switch (function.number) {
    case KEEL_ELEMENTWISE_FUNCTION_SQRT:
    case KEEL_ELEMENTWISE_FUNCTION_RSQRT:
    case KEEL_ELEMENTWISE_FUNCTION_LOG:
    case KEEL_ELEMENTWISE_FUNCTION_LOG2:
    case KEEL_ELEMENTWISE_FUNCTION_LOG1P:
      add(D::kNonFinite, "of_all_numbers", 0);
      add(D::kZeroes, "of_zeroes", 0);
      break;
    case KEEL_ELEMENTWISE_FUNCTION_EXP:
    case KEEL_ELEMENTWISE_FUNCTION_EXP2:
    case KEEL_ELEMENTWISE_FUNCTION_EXPM1:
    case KEEL_ELEMENTWISE_FUNCTION_TANH:
    case KEEL_ELEMENTWISE_FUNCTION_SIGMOID:
    case KEEL_ELEMENTWISE_FUNCTION_ERF:
      add(D::kExtreme, "of_large_numbers", 0);
      break;
    case KEEL_ELEMENTWISE_FUNCTION_SIN:
    case KEEL_ELEMENTWISE_FUNCTION_COS:
    case KEEL_ELEMENTWISE_FUNCTION_RECIPROCAL:
    case KEEL_ELEMENTWISE_FUNCTION_SIGN:
      add(D::kNonFinite, "of_all_numbers", 0);
      break;
    case KEEL_ELEMENTWISE_FUNCTION_DIV:
    case KEEL_ELEMENTWISE_FUNCTION_ATAN2:
    case KEEL_ELEMENTWISE_FUNCTION_POW:
    case KEEL_ELEMENTWISE_FUNCTION_ADDCMUL:
    case KEEL_ELEMENTWISE_FUNCTION_LERP:
    case KEEL_ELEMENTWISE_FUNCTION_TANH_BACKWARD:
    case KEEL_ELEMENTWISE_FUNCTION_SIGMOID_BACKWARD:
      for (uint32_t i = 0; i < function.operands; ++i) {
        constexpr const char* kNames[] = {"a_non_finite", "b_non_finite", "c_non_finite"};
        add(D::kNonFinite, kNames[i], i);
      }
      break;
    default:
      break;
  }
}

// Infinities and NaN in the last operand of functions that round more than once: limits, and
// quotients.
void add_limits(ElementwiseCases* cases, const Function& function) {
  switch (function.number) {
    case KEEL_ELEMENTWISE_FUNCTION_TANH:
    case KEEL_ELEMENTWISE_FUNCTION_SIGMOID:
    case KEEL_ELEMENTWISE_FUNCTION_SILU:
    case KEEL_ELEMENTWISE_FUNCTION_GELU:
    case KEEL_ELEMENTWISE_FUNCTION_FLOOR_DIV:
    case KEEL_ELEMENTWISE_FUNCTION_REMAINDER:
    case KEEL_ELEMENTWISE_FUNCTION_FMOD:
    case KEEL_ELEMENTWISE_FUNCTION_SILU_BACKWARD:
    case KEEL_ELEMENTWISE_FUNCTION_GELU_BACKWARD:
      for (const uint32_t combination : {kF32, kF64}) {
        Case* const each = cases->add(function, combination, "non_finite", {509});
        each->inputs[function.operands - 1].distribution = D::kNonFinite;
      }
      break;
    default:
      break;
  }
  add_range(cases, function);
}

// Values that only some functions define: of special numbers, and wrapped integers.
void add_contents(ElementwiseCases* cases, const Function& function) {
  if (function.is_exact) {
    for (const D content : {D::kSpecial, D::kNonFinite}) {
      const bool special = content == D::kSpecial;
      if (special && !takes_subnormals(function)) continue;
      Case* const each = cases->add(function, kF32, special ? "special" : "non_finite", {509});
      for (uint32_t i = 0; i < function.operands; ++i) each->inputs[i].distribution = content;
    }
  }
  if (!function.takes_integers) return;
  switch (function.number) {
    case KEEL_ELEMENTWISE_FUNCTION_NEG:
    case KEEL_ELEMENTWISE_FUNCTION_ABS:
    case KEEL_ELEMENTWISE_FUNCTION_BITWISE_NOT:
    case KEEL_ELEMENTWISE_FUNCTION_ADD:
    case KEEL_ELEMENTWISE_FUNCTION_SUB:
    case KEEL_ELEMENTWISE_FUNCTION_MUL:
    case KEEL_ELEMENTWISE_FUNCTION_MAXIMUM:
    case KEEL_ELEMENTWISE_FUNCTION_LT:
    case KEEL_ELEMENTWISE_FUNCTION_BITWISE_AND:
    case KEEL_ELEMENTWISE_FUNCTION_BITWISE_OR:
    case KEEL_ELEMENTWISE_FUNCTION_BITWISE_XOR: {
      Case* const each = cases->add(function, kI32, "every_integer", {509});
      for (uint32_t i = 0; i < function.operands; ++i) {
        each->inputs[i].distribution = D::kIntegers;
      }
      break;
    }
    default:
      break;
  }
}

}  // namespace

std::vector<Case> elementwise_cases() {
  ElementwiseCases cases;
  const auto combinations = static_cast<uint32_t>(cases.schema().dtypes.size());
  for (const Function& function : kFunctions) {
    const bool random = function.number >= KEEL_ELEMENTWISE_FUNCTION_UNIFORM;
    if (random) add_random(&cases, function);
    for (uint32_t c = 0; c < combinations; ++c) {
      const DtypeCombination& dtypes = cases.schema().dtypes[c];
      if (is_repeated(function, cases.schema().dtypes, c)) continue;
      const bool integers = all_integers(function, dtypes);
      if (integers ? !function.takes_integers : !function.takes_floats) continue;
      // Beyond the dtypes of frameworks' arithmetic, what rounds differently cannot be told.
      if (c > kI32 && !function.is_exact) continue;
      if (!integers && kit::is_integer(dtypes.outputs[0]) &&
          !fits_integers(function.number, dtypes.outputs[0])) {
        continue;
      }
      cases.add(function, c, "", {257});
    }
    if (function.takes_floats) add_strided(&cases, function, kBf16);
    if (function.takes_integers) add_strided(&cases, function, kI64);
    add_missing(&cases, function);
    add_limits(&cases, function);
    add_contents(&cases, function);
    add_signs(&cases, function);
    add_large(&cases, function);
  }
  for (uint32_t c = 0; c < combinations; ++c) add_layouts_of_dtypes(&cases, c);
  for (const int64_t number : {KEEL_ELEMENTWISE_FUNCTION_COPY, KEEL_ELEMENTWISE_FUNCTION_ADD}) {
    add_far_places(&cases, kFunctions[number]);
  }
  for (const int64_t number : {KEEL_ELEMENTWISE_FUNCTION_COPY, KEEL_ELEMENTWISE_FUNCTION_ADD,
                               KEEL_ELEMENTWISE_FUNCTION_WHERE}) {
    for (const uint32_t combination : {kF32, kBf16, kI64}) {
      add_layouts(&cases, kFunctions[number], combination);
    }
  }
  for (const double alpha : {0.0, -1.7, 3.0}) {
    Numbers numbers;
    numbers.alpha = alpha;
    for (const int64_t number : {KEEL_ELEMENTWISE_FUNCTION_ADD, KEEL_ELEMENTWISE_FUNCTION_SUB,
                                 KEEL_ELEMENTWISE_FUNCTION_ADDCMUL}) {
      cases.add(kFunctions[number], kF32, "alpha" + std::to_string(alpha), {263}, numbers);
    }
  }
  return cases.take();
}

}  // namespace keel::ops
