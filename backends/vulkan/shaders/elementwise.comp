// SPDX-License-Identifier: Apache-2.0
#version 460
// y = function(a, b, c), for operands of any dtypes and strides. The function, the dtypes and the
// axes are values, so that one module computes all calls of a compute type, KEEL_COMPUTE: 32 and 64
// for the floats, 0 for int64.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "typed.glsl"
#if KEEL_COMPUTE == 32
#include "value_32.glsl"
#include "math.glsl"
#include "gelu.glsl"
#include "sigmoid.glsl"
#include "bias_gelu.glsl"
#include "transcendental_32.glsl"
#include "trigonometry_32.glsl"
#include "arithmetic.glsl"
#elif KEEL_COMPUTE == 64
#include "value_64.glsl"
#include "transcendental_64.glsl"
#include "arithmetic.glsl"
#else
#include "value_int.glsl"
#include "arithmetic_int.glsl"
#endif
#include "elementwise_functions.glsl"
#include "philox.glsl"

layout(push_constant, std430) uniform Arguments {
  uvec2 operands[4];  // a, b, c, y: an address, or a number
  uvec2 alpha;        // the key of Philox for random functions, whose offset is in place of c
  uint call;          // function: 7 bits, present a, b, c: 3, rank - 1: 3, types: 4 x 4
  uint count;
  uint span;
  uint steps[19];  // by axis, fastest first: the strides of a, b, c, y, then the extent
};

// 0, or 1 + the function of large calls, which a pipeline of their own computes faster.
layout(constant_id = 2) const uint kVariant = 0;

uint function() { return kVariant == 0 ? call & 127u : kVariant - 1u; }
bool is_present(uint operand) { return (call >> (7u + operand) & 1u) != 0; }
uint last_axis() { return call >> 10 & 7u; }
uint type_of(uint operand) { return call >> (13u + 4u * operand) & 15u; }

// Axes beyond the fourth have no room among the push constants: all are then in memory.
uint step_at(uint i) {
  return last_axis() < 4u ? steps[i] : Words(uvec2(steps[0], steps[1])).at[i];
}

// Where element |index| of the row-major order is in each operand.
uvec4 place_of(uint index) {
  uvec4 place = uvec4(0);
  uint from = 0;
  for (uint axis = last_axis(); axis != 0; --axis) {
    const uint extent = step_at(from + 4u);
    const uint rest = index / extent;
    place += (index - rest * extent) *
             uvec4(step_at(from), step_at(from + 1u), step_at(from + 2u), step_at(from + 3u));
    index = rest;
    from += 5u;
  }
  return place +
         index * uvec4(step_at(from), step_at(from + 1u), step_at(from + 2u), step_at(from + 3u));
}

uvec2 load(uint operand, uint place) {
  if (!is_present(operand)) return operands[operand];
  return load_bits(operands[operand], type_of(operand), place);
}

Value operand_of(uint operand, uvec2 bits) {
  return is_present(operand) ? to_value(bits, type_of(operand)) : number(bits);
}

bool is_true(Value x) { return x != Value(0) || is_nan(x); }
// NaN if either is.
Value larger(Value a, Value b) { return is_nan(a) || (a > b && !is_nan(b)) ? a : b; }
Value smaller(Value a, Value b) { return is_nan(a) || (a < b && !is_nan(b)) ? a : b; }

#if KEEL_COMPUTE != 0
// Functions that are long. A pipeline of float64 has one of them, or none: all of them take a
// software driver five seconds to compile.
const bool kHasLongFunctions = KEEL_COMPUTE == 32 || kVariant != 0;

// The upper 24 bits of a random word as a fraction of 1.
Value fraction(uint word) { return Value(float(word >> 8) * 5.9604644775390625e-8); }

Value draw(uint i, Value a, Value b) {
  const uvec4 words = philox_at(operands[2], i / 4u, alpha);
  const Value u = fraction(words[i % 4u]);
  if (function() == kUniform) return a + (b - a) * u;
  if (function() == kBernoulli) return u < a ? Value(1) : Value(0);
  if (!kHasLongFunctions) return a;
  const bool is_upper = (i & 2u) != 0;
  const Value radius = sqrt(Value(-2) * log_of_one_and(-fraction(is_upper ? words.z : words.x)));
  // The angle in quarters of a turn: exact.
  const Value turns = Value(4) * fraction(is_upper ? words.w : words.y);
  const Value quadrant = roundEven(turns);
  const Value r = Value(kHalfPi) * (turns - quadrant);
  return a + b * (radius * sine_by_quadrant(r, uint(quadrant) + ((i & 1u) ^ 1u)));
}

Value apply_long(Value a, Value b) {
  switch (function()) {
    case kExp:
      return exp_or_infinity(a);
    case kExp2:
      return binary_exp(a);
    case kExpm1:
      return exp_less_one(a);
    case kLog:
      return natural_log(a);
    case kLog2:
      return binary_log(a);
    case kLog1p:
      return log_of_one_and(a);
    case kSin:
    case kCos:
      return sine(a, function() - kSin);
    case kTanh:
      return hyperbolic_tangent(a);
    case kSigmoid:
      return sigmoid_of(a);
    case kSilu:
      return silu(a);
    case kErf:
      return error_function(a);
    case kGelu:
      return gelu_by_erf(a);
    case kPow:
      return power(a, b);
    case kAtan2:
      return arc_tangent(a, b);
    case kSiluBackward:
      return a * slope_of_silu(b);
    case kGeluBackward:
      return a * gelu_by_erf_slope(b);
  }
  return a;
}
#endif

Value apply(uint i, Value a, Value b, Value c) {
  const Value factor = number(alpha);
  switch (function()) {
    case kCopy:
      return a;
    case kArange:
      return a + b * Value(i);
    case kNeg:
      return -a;
    case kAbs:
      return abs(a);
    case kSign:
      return Value(a > Value(0)) - Value(a < Value(0));
    case kFloor:
      return WHOLE(floor, a);
    case kCeil:
      return WHOLE(ceil, a);
    case kRound:
      return WHOLE(nearest_whole, a);
    case kTrunc:
      return WHOLE(trunc, a);
    case kRelu:
      return a < Value(0) ? Value(0) : a;
    case kIsNan:
      return Value(is_nan(a));
    case kLogicalNot:
      return Value(!is_true(a));
    case kAdd:
      return a + factor * b;
    case kSub:
      return a - factor * b;
    case kMul:
      return a * b;
    case kDiv:
      return quotient(a, b);
    case kFloorDiv:
      return floor_quotient(a, b);
    case kRemainder:
      return remainder(a, b);
    case kFmod:
      return modulo(a, b);
    case kMaximum:
      return larger(a, b);
    case kMinimum:
      return smaller(a, b);
    case kEq:
      return Value(a == b && !is_nan(a) && !is_nan(b));
    case kNe:
      return Value(a != b || is_nan(a) || is_nan(b));
    case kLt:
      return Value(a < b && !is_nan(a) && !is_nan(b));
    case kLe:
      return Value(a <= b && !is_nan(a) && !is_nan(b));
    case kGt:
      return Value(a > b && !is_nan(a) && !is_nan(b));
    case kGe:
      return Value(a >= b && !is_nan(a) && !is_nan(b));
    case kLogicalAnd:
      return Value(is_true(a) && is_true(b));
    case kLogicalOr:
      return Value(is_true(a) || is_true(b));
    case kLogicalXor:
      return Value(is_true(a) != is_true(b));
    case kThresholdBackward:
      return b <= c && !is_nan(b) && !is_nan(c) ? Value(0) : a;
    case kClamp:
      return smaller(larger(a, b), c);
    case kWhere:
      return is_true(a) ? b : c;
    case kAddcmul:
      return a + factor * b * c;
    case kAddcdiv:
      return a + quotient(factor * b, c);
#if KEEL_COMPUTE == 0
    case kBitwiseNot:
      return ~a;
    case kBitwiseAnd:
      return a & b;
    case kBitwiseOr:
      return a | b;
    case kBitwiseXor:
      return a ^ b;
    case kPow:
      return power(a, b);
#else
    case kSqrt:
      return sqrt(a);
    case kRsqrt:
      return Value(1) / sqrt(a);
    case kReciprocal:
      return Value(1) / a;
    case kTanhBackward:
      return a * (Value(1) - b * b);
    case kSigmoidBackward:
      return a * b * (Value(1) - b);
    case kLerp:
      return a + c * (b - a);
    case kUniform:
    case kNormal:
    case kBernoulli:
      return draw(i, a, b);
#endif
  }
#if KEEL_COMPUTE != 0
  if (kHasLongFunctions) return apply_long(a, b);
#endif
  return a;
}

void main() {
  FOR_EACH_ELEMENT(i, count, span) {
    const uvec4 place = place_of(i);
    // Loaded before any is converted: the loads of a GPU then overlap.
    const uvec2 a = load(0u, place.x);
    const uvec2 b = load(1u, place.y);
    const uvec2 c = load(2u, place.z);
    const Value result = apply(i, operand_of(0u, a), operand_of(1u, b), operand_of(2u, c));
    store_bits(operands[3], type_of(3u), place.w, to_bits(result, type_of(3u)));
  }
}
