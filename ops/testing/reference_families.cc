// SPDX-License-Identifier: Apache-2.0
// References: elementwise, and the errors allowed to its functions and to those of reduce.
#include <algorithm>
#include <array>
#include <cmath>
#include <keel/plugin/numbers.hpp>

#include "ops/schema_parts.h"
#include "ops/testing/conversions.h"
#include "ops/testing/philox.h"
#include "ops/testing/reference_functions.h"
#include "ops/testing/reference_workspace.h"

namespace keel::ops {
namespace {

constexpr double kPi = 3.14159265358979323846;

#define KEEL_FUNCTION(NAME) KEEL_ELEMENTWISE_FUNCTION_##NAME

// One element's value, and the size of its operands.
struct Computed {
  double value;
  double size;
};

// Words of Philox as numbers in [0, 1).
double uniform_of(const keel_op_elementwise_attributes& attributes, uint64_t i) {
  const auto seed = static_cast<uint64_t>(attributes.seed);
  const uint64_t counter = static_cast<uint64_t>(attributes.offset) + i / 4;
  const uint32_t word =
      philox4x32({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)})[i % 4];
  return static_cast<double>(word >> 8) * 0x1p-24;
}

double normal_of(const keel_op_elementwise_attributes& attributes, uint64_t i) {
  const double u = uniform_of(attributes, i & ~uint64_t{1});
  const double v = uniform_of(attributes, i | 1);
  const double radius = std::sqrt(-2 * std::log1p(-u));
  return radius * ((i & 1) == 0 ? std::cos(2 * kPi * v) : std::sin(2 * kPi * v));
}

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

// Limits, where the terms are products of 0 and infinity.
double silu_slope(double x) {
  if (std::isinf(x)) return x > 0 ? 1 : 0;
  const double s = sigmoid(x);
  return s + x * s * (1 - s);
}

double normal_cdf(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2.0));
}

double normal_density(double x) {
  return std::exp(-0.5 * x * x) / std::sqrt(2 * kPi);
}

double gelu_slope(double x) {
  return normal_cdf(x) + (std::isinf(x) ? 0 : x * normal_density(x));
}

// As Python's // and %: fmod is exact, and so is the quotient of what it leaves but for rounding.
double floor_quotient(double a, double b) {
  if (b == 0) return a / b;
  const double rest = std::fmod(a, b);
  const double whole = std::round((a - rest) / b);
  return rest != 0 && (rest < 0) != (b < 0) ? whole - 1 : whole;
}

double floor_rest(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

// With NaN on either side, NaN.
double largest(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? std::nan("") : std::max(a, b);
}

double smallest(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? std::nan("") : std::min(a, b);
}

// A function of one operand in real numbers.
Computed of_one(int64_t function, double a) {
  const double size = std::abs(a);
  const auto scaled = [](double value, double by) { return Computed{value, std::abs(value) * by}; };
  switch (function) {
    case KEEL_FUNCTION(NEG):
      return {-a, 0};
    case KEEL_FUNCTION(ABS):
      return {std::abs(a), 0};
    case KEEL_FUNCTION(SIGN):
      return {static_cast<double>((a > 0) - (a < 0)), 0};
    case KEEL_FUNCTION(FLOOR):
      return {std::floor(a), 0};
    case KEEL_FUNCTION(CEIL):
      return {std::ceil(a), 0};
    case KEEL_FUNCTION(ROUND):
      return {std::nearbyint(a), 0};
    case KEEL_FUNCTION(TRUNC):
      return {std::trunc(a), 0};
    case KEEL_FUNCTION(SQRT):
      return scaled(std::sqrt(a), 1);
    case KEEL_FUNCTION(RSQRT):
      return scaled(1 / std::sqrt(a), 1);
    case KEEL_FUNCTION(RECIPROCAL):
      return scaled(1 / a, 1);
    case KEEL_FUNCTION(EXP):
      return scaled(std::exp(a), 1 + size);
    case KEEL_FUNCTION(EXP2):
      return scaled(std::exp2(a), 1 + size);
    case KEEL_FUNCTION(EXPM1):
      return {std::expm1(a), std::min(size, 1.0) + std::exp(a) * size};
    case KEEL_FUNCTION(LOG):
      return {std::log(a), std::max(std::abs(std::log(a)), std::min(1.0, std::abs(a - 1)))};
    case KEEL_FUNCTION(LOG2):
      return {std::log2(a), std::max(std::abs(std::log2(a)), std::min(1.0, std::abs(a - 1)))};
    case KEEL_FUNCTION(LOG1P):
      return scaled(std::log1p(a), 1);
    case KEEL_FUNCTION(SIN):
      return {std::sin(a), 1 + size};
    case KEEL_FUNCTION(COS):
      return {std::cos(a), 1 + size};
    case KEEL_FUNCTION(TANH):
      return scaled(std::tanh(a), 1);
    case KEEL_FUNCTION(SIGMOID):
      return scaled(sigmoid(a), 1 + size);
    case KEEL_FUNCTION(RELU):
      return {largest(a, 0), 0};
    case KEEL_FUNCTION(SILU):
      return {a == -kInfinity ? 0 : a * sigmoid(a), size};
    case KEEL_FUNCTION(ERF):
      return scaled(std::erf(a), 1);
    case KEEL_FUNCTION(GELU):
      return {a == -kInfinity ? 0 : a * normal_cdf(a), size};
    case KEEL_FUNCTION(IS_NAN):
      return {std::isnan(a) ? 1.0 : 0.0, 0};
    default:  // logical_not
      return {a == 0 ? 1.0 : 0.0, 0};
  }
}

// A function of two operands in real numbers.
Computed of_two(int64_t function, double alpha, double a, double b) {
  const auto truth = [](bool value) { return Computed{value ? 1.0 : 0.0, 0}; };
  switch (function) {
    case KEEL_FUNCTION(ADD):
      return {a + alpha * b, std::abs(a) + std::abs(alpha * b)};
    case KEEL_FUNCTION(SUB):
      return {a - alpha * b, std::abs(a) + std::abs(alpha * b)};
    case KEEL_FUNCTION(MUL):
      return {a * b, std::abs(a * b)};
    case KEEL_FUNCTION(DIV):
      return {a / b, std::abs(a / b)};
    case KEEL_FUNCTION(FLOOR_DIV):
      return {floor_quotient(a, b), 0};
    case KEEL_FUNCTION(REMAINDER):
      return {floor_rest(a, b), std::abs(a)};
    case KEEL_FUNCTION(FMOD):
      return {std::fmod(a, b), std::abs(a)};
    case KEEL_FUNCTION(POW): {
      const double value = std::pow(a, b);
      return {value, std::abs(value) * (1 + std::abs(b * std::log2(std::abs(a))))};
    }
    case KEEL_FUNCTION(MAXIMUM):
      return {largest(a, b), 0};
    case KEEL_FUNCTION(MINIMUM):
      return {smallest(a, b), 0};
    case KEEL_FUNCTION(ATAN2):
      return {std::atan2(a, b), std::abs(std::atan2(a, b))};
    case KEEL_FUNCTION(EQ):
      return truth(a == b);
    case KEEL_FUNCTION(NE):
      return truth(a != b);
    case KEEL_FUNCTION(LT):
      return truth(a < b);
    case KEEL_FUNCTION(LE):
      return truth(a <= b);
    case KEEL_FUNCTION(GT):
      return truth(a > b);
    case KEEL_FUNCTION(GE):
      return truth(a >= b);
    case KEEL_FUNCTION(LOGICAL_AND):
      return truth(a != 0 && b != 0);
    case KEEL_FUNCTION(LOGICAL_OR):
      return truth(a != 0 || b != 0);
    case KEEL_FUNCTION(LOGICAL_XOR):
      return truth((a != 0) != (b != 0));
    case KEEL_FUNCTION(TANH_BACKWARD):
      return {a * (1 - b * b), std::abs(a) * (1 + b * b)};
    case KEEL_FUNCTION(SIGMOID_BACKWARD):
      return {a * b * (1 - b), std::abs(a * b) * (1 + std::abs(b))};
    case KEEL_FUNCTION(SILU_BACKWARD):
      return {a * silu_slope(b), std::abs(a) * (1 + std::abs(b))};
    default:  // gelu_backward
      return {a * gelu_slope(b), std::abs(a) * (1 + std::abs(b))};
  }
}

// A function of three operands in real numbers.
Computed of_three(int64_t function, double alpha, double a, double b, double c) {
  switch (function) {
    case KEEL_FUNCTION(THRESHOLD_BACKWARD):
      return {b <= c ? 0 : a, 0};
    case KEEL_FUNCTION(CLAMP):
      return {smallest(largest(a, b), c), 0};
    case KEEL_FUNCTION(WHERE):
      return {a != 0 ? b : c, 0};
    case KEEL_FUNCTION(ADDCMUL):
      return {a + alpha * b * c, std::abs(a) + std::abs(alpha * b * c)};
    case KEEL_FUNCTION(ADDCDIV):
      return {a + alpha * b / c, std::abs(a) + std::abs(alpha * b / c)};
    default:  // lerp
      return {a + c * (b - a), std::abs(a) + std::abs(c) * (std::abs(a) + std::abs(b))};
  }
}

Computed of_real(const keel_op_elementwise_attributes& attributes, uint64_t i, double a, double b,
                 double c) {
  const int64_t function = attributes.function;
  switch (function) {
    case KEEL_FUNCTION(COPY):
      return {a, 0};
    case KEEL_FUNCTION(ARANGE): {
      const auto index = static_cast<double>(i);
      return {a + b * index, std::abs(a) + std::abs(b * index)};
    }
    case KEEL_FUNCTION(UNIFORM):
      return {a + (b - a) * uniform_of(attributes, i), std::abs(a) + std::abs(b)};
    case KEEL_FUNCTION(NORMAL): {
      const double n = normal_of(attributes, i);
      return {a + b * n, std::abs(a) + std::abs(b) * (1 + std::abs(n))};
    }
    case KEEL_FUNCTION(BERNOULLI):
      return {uniform_of(attributes, i) < a ? 1.0 : 0.0, 0};
    default:
      break;
  }
  if (function < KEEL_FUNCTION(ADD)) return of_one(function, a);
  if (function == KEEL_FUNCTION(THRESHOLD_BACKWARD) || function >= KEEL_FUNCTION(CLAMP)) {
    return of_three(function, attributes.alpha, a, b, c);
  }
  return of_two(function, attributes.alpha, a, b);
}

int64_t wrapped(uint64_t value) {
  return static_cast<int64_t>(value);
}

// a to the power of b, modulo 2^64; 0, 1 or -1 for a negative b.
int64_t integer_power(int64_t a, int64_t b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 == 0 ? 1 : -1) : 0;
  uint64_t result = 1;
  for (int64_t step = 0; step < b; ++step) result *= static_cast<uint64_t>(a);
  return wrapped(result);
}

// Cases divide by no zero.
int64_t of_integers(const keel_op_elementwise_attributes& attributes, uint64_t i, int64_t a,
                    int64_t b, int64_t c) {
  const auto alpha = static_cast<uint64_t>(static_cast<int64_t>(attributes.alpha));
  const auto u = [](int64_t value) { return static_cast<uint64_t>(value); };
  const auto floored = [&] { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); };
  switch (attributes.function) {
    case KEEL_FUNCTION(ARANGE):
      return wrapped(u(a) + u(b) * i);
    case KEEL_FUNCTION(NEG):
      return wrapped(-u(a));
    case KEEL_FUNCTION(ABS):
      return a < 0 ? wrapped(-u(a)) : a;
    case KEEL_FUNCTION(SIGN):
      return (a > 0) - (a < 0);
    case KEEL_FUNCTION(COPY):
    case KEEL_FUNCTION(FLOOR):
    case KEEL_FUNCTION(CEIL):
    case KEEL_FUNCTION(ROUND):
    case KEEL_FUNCTION(TRUNC):
      return a;
    case KEEL_FUNCTION(RELU):
      return std::max<int64_t>(a, 0);
    case KEEL_FUNCTION(IS_NAN):
      return 0;
    case KEEL_FUNCTION(BITWISE_NOT):
      return ~a;
    case KEEL_FUNCTION(ADD):
      return wrapped(u(a) + alpha * u(b));
    case KEEL_FUNCTION(SUB):
      return wrapped(u(a) - alpha * u(b));
    case KEEL_FUNCTION(MUL):
      return wrapped(u(a) * u(b));
    case KEEL_FUNCTION(DIV):
      return a / b;
    case KEEL_FUNCTION(FLOOR_DIV):
      return floored();
    case KEEL_FUNCTION(REMAINDER):
      return a - floored() * b;
    case KEEL_FUNCTION(FMOD):
      return a % b;
    case KEEL_FUNCTION(POW):
      return integer_power(a, b);
    case KEEL_FUNCTION(BITWISE_AND):
      return a & b;
    case KEEL_FUNCTION(BITWISE_OR):
      return a | b;
    case KEEL_FUNCTION(BITWISE_XOR):
      return a ^ b;
    case KEEL_FUNCTION(ADDCMUL):
      return wrapped(u(a) + alpha * u(b) * u(c));
    case KEEL_FUNCTION(ADDCDIV):
      return wrapped(u(a) + u(wrapped(alpha * u(b)) / c));
    default:  // comparisons, logic, choices: exact in double for the cases' 32 bits
      return static_cast<int64_t>(of_real(attributes, i, static_cast<double>(a),
                                          static_cast<double>(b), static_cast<double>(c))
                                      .value);
  }
}

// How a function rounds.
enum class Rounding : uint8_t { kOnce, kFew, kTranscendental };

Rounding rounding_of(const keel_op_call& call) {
  const auto attributes = kit::attributes<keel_op_elementwise_attributes>(call);
  switch (attributes.function) {
    case KEEL_FUNCTION(ADD):
    case KEEL_FUNCTION(SUB):
      return attributes.alpha == 1 ? Rounding::kOnce : Rounding::kFew;
    case KEEL_FUNCTION(ARANGE):
    case KEEL_FUNCTION(SQRT):
    case KEEL_FUNCTION(RSQRT):
    case KEEL_FUNCTION(RECIPROCAL):
    case KEEL_FUNCTION(DIV):
    case KEEL_FUNCTION(TANH_BACKWARD):
    case KEEL_FUNCTION(SIGMOID_BACKWARD):
    case KEEL_FUNCTION(ADDCMUL):
    case KEEL_FUNCTION(ADDCDIV):
    case KEEL_FUNCTION(LERP):
    case KEEL_FUNCTION(UNIFORM):
      return Rounding::kFew;
    case KEEL_FUNCTION(POW):
    case KEEL_FUNCTION(ATAN2):
    case KEEL_FUNCTION(SILU_BACKWARD):
    case KEEL_FUNCTION(GELU_BACKWARD):
    case KEEL_FUNCTION(NORMAL):
      return Rounding::kTranscendental;
    default:
      return attributes.function >= KEEL_FUNCTION(EXP) &&
                     attributes.function <= KEEL_FUNCTION(GELU) &&
                     attributes.function != KEEL_FUNCTION(RELU)
                 ? Rounding::kTranscendental
                 : Rounding::kOnce;
  }
}

}  // namespace

void elementwise_reference(Workspace& w) {
  const keel_op_call& call = w.call();
  const auto attributes = w.attributes<keel_op_elementwise_attributes>();
  const keel_dtype computed = kit::compute_dtype(call);
  const keel_dtype stored = call.outputs[0]->dtype;
  const double numbers[] = {attributes.a_number, attributes.b_number, attributes.c_number};
  std::array<std::vector<int64_t>, 3> integers;  // of tensors of integers, exact
  for (uint32_t k = 0; k < 3; ++k) {
    const keel_tensor* const tensor = call.inputs[k];
    if (tensor != nullptr && kit::is_integer(tensor->dtype)) integers[k] = read_integers(*tensor);
  }
  auto rounded = attributes;
  rounded.alpha = round_to_dtype(attributes.alpha, computed);
  for (size_t i = 0; i < w.count(); ++i) {
    if (computed == KEEL_INT64) {
      const auto operand = [&](uint32_t k) {
        return integers[k].empty() ? kit::truncated(numbers[k]) : integers[k][i];
      };
      w.out(0)[i] =
          wrap_to_dtype(of_integers(attributes, i, operand(0), operand(1), operand(2)), stored);
      continue;
    }
    const auto operand = [&](uint32_t k) {
      if (!integers[k].empty()) return round_integer(integers[k][i], computed);
      return round_to_dtype(call.inputs[k] == nullptr ? numbers[k] : w.in(k)[i], computed);
    };
    const Computed result = of_real(rounded, i, operand(0), operand(1), operand(2));
    w.out(0)[i] = kit::is_integer(stored)
                      ? truncate_to_dtype(round_to_dtype(result.value, computed), stored)
                      : result.value;
    w.size(0)[i] = std::isfinite(result.size) ? result.size : 0;
  }
}

Tolerance tolerance_of(const keel_op_call& call, const Tolerance& tolerance) {
  if (call.op != KEEL_OP_ELEMENTWISE && call.op != KEEL_OP_REDUCE) return tolerance;
  const keel_dtype stored = call.outputs[0]->dtype;
  if (kit::is_integer(stored)) return tolerance;
  const bool is_double = kit::compute_dtype(call) == KEEL_FLOAT64 && stored == KEEL_FLOAT64;
  if (call.op == KEEL_OP_REDUCE) {
    return is_double ? Tolerance{0, 0x1p-50, 0x1p-48, 1e-24} : tolerance;
  }
  const double error = stored == KEEL_FLOAT16    ? kErrorFloat16
                       : stored == KEEL_BFLOAT16 ? kErrorBFloat16
                                                 : kErrorFloat32;
  switch (rounding_of(call)) {
    case Rounding::kOnce:
      return is_double ? Tolerance{0, 0, 0, 1e-30} : tolerance;
    case Rounding::kFew:
      return is_double ? Tolerance{0, 0x1p-50, 0x1p-50, 1e-24} : few_roundings(error);
    default:
      return is_double ? Tolerance{0, 0x1p-48, 0x1p-46, 1e-24} : transcendental(error);
  }
}

}  // namespace keel::ops
