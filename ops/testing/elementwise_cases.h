// SPDX-License-Identifier: Apache-2.0
// Cases of elementwise: what each function takes, and how a case of it is made.
#ifndef KEEL_OPS_TESTING_ELEMENTWISE_CASES_H_
#define KEEL_OPS_TESTING_ELEMENTWISE_CASES_H_

#include <iterator>
#include <keel/plugin/numbers.hpp>
#include <string>
#include <utility>
#include <vector>

#include "ops/testing/case_builder.h"

namespace keel::ops::elementwise {

using D = Distribution;
using Shape = std::vector<int64_t>;

// A function of elementwise: its operands, and how it is tried.
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

inline constexpr Function kFunctions[] = {
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
#undef KEEL_FUNCTION
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

// Integer content for operand |i|: positive divisors and exponents; small numbers elsewhere, so
// that int64 results fit the reference's float64; both truth values where they matter.
inline CaseTensor integers(const Function& function, uint32_t i, keel_dtype dtype,
                           const Shape& shape) {
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

// "a", "b" or "c".
inline std::string operand_name(uint32_t i) {
  return {static_cast<char>('a' + i)};
}

// Cases by layout: for each of a few functions, and for each combination of dtypes.
void add_strided(ElementwiseCases* cases, const Function& function, uint32_t combination);
void add_layouts(ElementwiseCases* cases, const Function& function, uint32_t combination);
void add_far_places(ElementwiseCases* cases, const Function& function);
void add_layouts_of_dtypes(ElementwiseCases* cases, uint32_t combination);

}  // namespace keel::ops::elementwise

#endif  // KEEL_OPS_TESTING_ELEMENTWISE_CASES_H_
