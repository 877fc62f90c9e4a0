// SPDX-License-Identifier: Apache-2.0
// Cases of elementwise: every function by dtype, missing tensor and content.
#include <algorithm>
#include <span>

#include "ops/testing/case_generators.h"
#include "ops/testing/elementwise_cases.h"

namespace keel::ops {
namespace elementwise {
namespace {

// Whether all tensors of the combination are integers, for as many operands as the function has.
bool all_integers(const Function& function, const DtypeCombination& dtypes) {
  bool all = kit::is_integer(dtypes.outputs[0]);
  for (uint32_t i = 0; i < function.operands; ++i) all = all && kit::is_integer(dtypes.inputs[i]);
  return all;
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

void add_missing(ElementwiseCases* cases, const Function& function) {
  if (function.operands < 2) return;
  for (uint32_t i = 0; i < function.operands; ++i) {
    Numbers numbers;
    numbers.a = numbers.b = numbers.c = 0.5;
    const uint32_t combination = function.takes_floats ? kF32 : kI64;
    if (!function.takes_floats) numbers.a = numbers.b = numbers.c = 3;
    cases->add(function, combination, operand_name(i) + "_number", {129}, numbers, 1U << i);
  }
}

// Functions of an element's index, which is row-major in y whatever the order of y's memory.
void add_indexed(ElementwiseCases* cases, const Function& function) {
  for (const uint32_t combination : {kF32, kF64}) {
    Case* each = cases->add(function, combination, "output_reversed", {5, 7, 3});
    each->outputs[0] = transposed(each->outputs[0]);
    each->strided = true;
    each = cases->add(function, combination, "output_padded", {67, 33});
    each->outputs[0] = padded(each->outputs[0], 3);
    each->strided = true;
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

// A tensor as bool, as frameworks make it: y = a != 0, true for NaN.
void add_to_bool(ElementwiseCases* cases) {
  Numbers zero;
  zero.b = 0;
  const Function& function = kFunctions[KEEL_ELEMENTWISE_FUNCTION_NE];
  for (uint32_t c = 0; c < cases->schema().dtypes.size(); ++c) {
    const DtypeCombination& dtypes = cases->schema().dtypes[c];
    if (dtypes.outputs[0] != KEEL_UINT8) continue;
    Case* const each = cases->add(function, c, "to_bool", {263}, zero, 1U << 1);
    each->inputs[0].distribution = D::kConversions;
    each->inputs[0].bound = KEEL_FLOAT64;  // takes all values
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
  const auto add = [&](D content, const std::string& suffix, uint32_t operand) {
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
        add(D::kNonFinite, operand_name(i) + "_non_finite", i);
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
}  // namespace elementwise

std::vector<Case> elementwise_cases() {
  using namespace elementwise;  // NOLINT(google-build-using-namespace)
  ElementwiseCases cases;
  const auto combinations = static_cast<uint32_t>(cases.schema().dtypes.size());
  for (const Function& function : kFunctions) {
    const bool random = function.number >= KEEL_ELEMENTWISE_FUNCTION_UNIFORM;
    if (random) add_random(&cases, function);
    if (random || function.number == KEEL_ELEMENTWISE_FUNCTION_ARANGE) {
      add_indexed(&cases, function);
    }
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
  add_to_bool(&cases);
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
