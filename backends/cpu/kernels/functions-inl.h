// SPDX-License-Identifier: Apache-2.0
// The functions of elementwise over arrays of a compute type: float, double or int64_t.
// Included by kernels_family_*.cc after <hwy/highway.h>, once per instruction set.
#if defined(KEEL_BACKENDS_CPU_KERNELS_FUNCTIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KEEL_BACKENDS_CPU_KERNELS_FUNCTIONS_INL_H_
#undef KEEL_BACKENDS_CPU_KERNELS_FUNCTIONS_INL_H_
#else
#define KEEL_BACKENDS_CPU_KERNELS_FUNCTIONS_INL_H_
#endif

#include <hwy/highway.h>

#include <cmath>
#include <cstdint>
#include <numbers>
#include <type_traits>

#include "backends/cpu/kernels/convert-inl.h"
#include "backends/cpu/kernels/families.h"

HWY_BEFORE_NAMESPACE();
namespace keel::cpu::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// y[i] = body(i). Bodies are marked HWY_ATTR.
template <typename Number, class Body>
HWY_INLINE void each(const Arguments<Number>& of, const Body& body) {
  Number* const y = of.y;
  const int64_t count = of.count;
  KEEL_INDEPENDENT
  for (int64_t i = 0; i < count; ++i) y[i] = body(i);
}

// The larger of |a| and |b|, or the smaller; NaN wins.
template <bool kMax, typename Number>
HWY_INLINE Number farther(Number a, Number b) {
  return (kMax ? a > b : a < b) || a != a ? a : b;
}

// ---- integers -------------------------------------------------------------------

// Overflow wraps.
HWY_INLINE int64_t wrapped_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
HWY_INLINE int64_t wrapped_multiply(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
HWY_INLINE int64_t wrapped_negative(int64_t a) {
  return static_cast<int64_t>(uint64_t{0} - static_cast<uint64_t>(a));
}

// Neither traps: a division by 0 gives 0, and that of the smallest number by -1 wraps.
HWY_INLINE int64_t quotient(int64_t a, int64_t b) {
  if (b == 0) return 0;
  return b == -1 ? wrapped_negative(a) : a / b;
}
HWY_INLINE int64_t rest(int64_t a, int64_t b) {
  return b == 0 || b == -1 ? 0 : a % b;
}
HWY_INLINE int64_t floor_quotient(int64_t a, int64_t b) {
  const int64_t result = quotient(a, b);
  return rest(a, b) != 0 && (a < 0) != (b < 0) ? result - 1 : result;
}
HWY_INLINE int64_t floor_rest(int64_t a, int64_t b) {
  const int64_t result = rest(a, b);
  return result != 0 && (result < 0) != (b < 0) ? result + b : result;
}

HWY_INLINE int64_t power(int64_t a, int64_t b) {
  if (b < 0) {
    if (a == 1) return 1;
    if (a == -1) return b % 2 == 0 ? 1 : -1;
    return 0;
  }
  int64_t result = 1;
  for (auto bits = static_cast<uint64_t>(b); bits != 0; bits >>= 1) {
    if ((bits & 1) != 0) result = wrapped_multiply(result, a);
    a = wrapped_multiply(a, a);
  }
  return result;
}

// ---- floats ---------------------------------------------------------------------

// The remainder with the sign of b, and the quotient that belongs to it, which rounding a / b may
// miss by one.
template <typename Number>
HWY_INLINE Number floor_rest(Number a, Number b) {
  const Number result = std::fmod(a, b);
  return result != 0 && (result < 0) != (b < 0) ? result + b : result;
}
template <typename Number>
HWY_INLINE Number floor_quotient(Number a, Number b) {
  if (b == 0) return a / b;
  const Number cut = std::fmod(a, b);
  Number whole = (a - cut) / b;
  if (cut != 0 && (cut < 0) != (b < 0)) whole -= 1;
  if (whole == 0) return std::copysign(Number{0}, a / b);
  const Number result = std::floor(whole);
  return whole - result > Number{0.5} ? result + 1 : result;
}

template <typename Number>
HWY_INLINE Number sigmoid(Number a) {
  return 1 / (1 + std::exp(-a));
}

// Functions with limits that are products of 0 and infinity.
template <typename Number>
HWY_INLINE Number silu(Number a) {
  const Number s = sigmoid(a);
  return s == 0 ? 0 : a * s;
}
template <typename Number>
HWY_INLINE Number silu_slope(Number a) {
  const Number s = sigmoid(a);
  const Number rest = sigmoid(-a);
  if (s == 0 || rest == 0) return s;
  return s * (1 + a * rest);
}

HWY_INLINE double normal_distribution(double a) {
  return 0.5 * std::erfc(-a * std::numbers::sqrt2 / 2);
}
HWY_INLINE double normal_density(double a) {
  return std::exp(-0.5 * a * a) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
}
HWY_INLINE double gelu(double a) {
  const double part = normal_distribution(a);
  return part == 0 ? 0 : a * part;
}
HWY_INLINE double gelu_slope(double a) {
  const double density = normal_density(a);
  return normal_distribution(a) + (density == 0 ? 0 : a * density);
}

// Uniform in [0, 1).
HWY_INLINE double uniform(uint32_t word) {
  return static_cast<double>(word >> 8) * 0x1p-24;
}

// The normal number of the element at position |place| in the words.
HWY_INLINE double normal(const uint32_t* words, int64_t place) {
  const int64_t pair = place & ~int64_t{1};
  const double radius = std::sqrt(-2 * std::log1p(-uniform(words[pair])));
  const double angle = 2 * std::numbers::pi * uniform(words[pair + 1]);
  return radius * (place == pair ? std::cos(angle) : std::sin(angle));
}

// Functions that numbers of any kind have. False for other functions.
template <typename Number>
bool apply_common(const Arguments<Number>& of) {
  const Number* const a = of.a;
  const Number* const b = of.b;
  const Number* const c = of.c;
  constexpr bool kInteger = std::is_same_v<Number, int64_t>;
  const auto alpha = static_cast<Number>(of.alpha);
  const auto sum = [](Number x, Number y) HWY_ATTR {
    if constexpr (kInteger) return wrapped_add(x, y);
    return x + y;
  };
  const auto difference = [](Number x, Number y) HWY_ATTR {
    if constexpr (kInteger) return wrapped_add(x, wrapped_negative(y));
    return x - y;
  };
  const auto product = [](Number x, Number y) HWY_ATTR {
    if constexpr (kInteger) return wrapped_multiply(x, y);
    return x * y;
  };
  const auto divided = [](Number x, Number y) HWY_ATTR {
    if constexpr (kInteger) return quotient(x, y);
    return x / y;
  };
#define KEEL_CASE(NAME, EXPRESSION)                                     \
  case KEEL_ELEMENTWISE_FUNCTION_##NAME:                                \
    each(of, [=](int64_t i) HWY_ATTR -> Number { return EXPRESSION; }); \
    return true;
#define KEEL_TEST(NAME, CONDITION) KEEL_CASE(NAME, (CONDITION) ? Number{1} : Number{0})
  switch (of.function) {
    KEEL_CASE(COPY, a[i])
    KEEL_CASE(NEG, difference(0, a[i]))
    KEEL_CASE(SIGN, static_cast<Number>((a[i] > 0) - (a[i] < 0)))
    KEEL_CASE(RELU, a[i] < 0 ? 0 : a[i])
    KEEL_TEST(IS_NAN, a[i] != a[i])
    KEEL_TEST(LOGICAL_NOT, a[i] == 0)
    KEEL_CASE(MUL, product(a[i], b[i]))
    KEEL_CASE(DIV, divided(a[i], b[i]))
    KEEL_CASE(FLOOR_DIV, floor_quotient(a[i], b[i]))
    KEEL_CASE(REMAINDER, floor_rest(a[i], b[i]))
    KEEL_CASE(MAXIMUM, farther<true>(a[i], b[i]))
    KEEL_CASE(MINIMUM, farther<false>(a[i], b[i]))
    KEEL_TEST(EQ, a[i] == b[i])
    KEEL_TEST(NE, a[i] != b[i])
    KEEL_TEST(LT, a[i] < b[i])
    KEEL_TEST(LE, a[i] <= b[i])
    KEEL_TEST(GT, a[i] > b[i])
    KEEL_TEST(GE, a[i] >= b[i])
    KEEL_TEST(LOGICAL_AND, (a[i] != 0) & (b[i] != 0))
    KEEL_TEST(LOGICAL_OR, (a[i] != 0) | (b[i] != 0))
    KEEL_TEST(LOGICAL_XOR, (a[i] != 0) != (b[i] != 0))
    KEEL_CASE(THRESHOLD_BACKWARD, b[i] <= c[i] ? 0 : a[i])
    KEEL_CASE(WHERE, a[i] != 0 ? b[i] : c[i])
    KEEL_CASE(ADDCDIV, sum(a[i], divided(product(alpha, b[i]), c[i])))
    KEEL_CASE(CLAMP, farther<false>(farther<true>(a[i], b[i]), c[i]))
    case KEEL_ELEMENTWISE_FUNCTION_ADD:
      if (alpha == 1) {
        each(of, [=](int64_t i) HWY_ATTR { return sum(a[i], b[i]); });
      } else {
        each(of, [=](int64_t i) HWY_ATTR { return sum(a[i], product(alpha, b[i])); });
      }
      return true;
    case KEEL_ELEMENTWISE_FUNCTION_SUB:
      if (alpha == 1) {
        each(of, [=](int64_t i) HWY_ATTR { return difference(a[i], b[i]); });
      } else {
        each(of, [=](int64_t i) HWY_ATTR { return difference(a[i], product(alpha, b[i])); });
      }
      return true;
    case KEEL_ELEMENTWISE_FUNCTION_ADDCMUL:
      if (alpha == 1) {
        each(of, [=](int64_t i) HWY_ATTR { return sum(a[i], product(b[i], c[i])); });
      } else {
        each(of,
             [=](int64_t i) HWY_ATTR { return sum(a[i], product(product(alpha, b[i]), c[i])); });
      }
      return true;
    default:
      return false;
  }
#undef KEEL_TEST
#undef KEEL_CASE
}

// ---- all functions of a compute type --------------------------------------------

#define KEEL_CASE(NAME, EXPRESSION)                                     \
  case KEEL_ELEMENTWISE_FUNCTION_##NAME:                                \
    each(of, [=](int64_t i) HWY_ATTR -> Number { return EXPRESSION; }); \
    return;

template <typename Number>
void apply_floats(const Arguments<Number>& of) {
  if (apply_common(of)) return;
  const Number* const a = of.a;
  const Number* const b = of.b;
  const Number* const c = of.c;
  const uint32_t* const words = of.words;
  const int64_t first = of.first;
  const int64_t skipped = first % 4;
  switch (of.function) {
    KEEL_CASE(ARANGE,
              static_cast<Number>(static_cast<double>(a[i]) +
                                  static_cast<double>(b[i]) * static_cast<double>(first + i)))
    KEEL_CASE(ABS, std::abs(a[i]))
    KEEL_CASE(FLOOR, std::floor(a[i]))
    KEEL_CASE(CEIL, std::ceil(a[i]))
    KEEL_CASE(ROUND, std::rint(a[i]))
    KEEL_CASE(TRUNC, std::trunc(a[i]))
    KEEL_CASE(SQRT, std::sqrt(a[i]))
    KEEL_CASE(RSQRT, 1 / std::sqrt(a[i]))
    KEEL_CASE(RECIPROCAL, 1 / a[i])
    KEEL_CASE(EXP, std::exp(a[i]))
    KEEL_CASE(EXP2, std::exp2(a[i]))
    KEEL_CASE(EXPM1, std::expm1(a[i]))
    KEEL_CASE(LOG, std::log(a[i]))
    KEEL_CASE(LOG2, std::log2(a[i]))
    KEEL_CASE(LOG1P, std::log1p(a[i]))
    KEEL_CASE(SIN, std::sin(a[i]))
    KEEL_CASE(COS, std::cos(a[i]))
    KEEL_CASE(TANH, std::tanh(a[i]))
    KEEL_CASE(SIGMOID, sigmoid(a[i]))
    KEEL_CASE(SILU, silu(a[i]))
    KEEL_CASE(ERF, std::erf(a[i]))
    KEEL_CASE(GELU, static_cast<Number>(gelu(a[i])))
    KEEL_CASE(FMOD, std::fmod(a[i], b[i]))
    KEEL_CASE(POW, std::pow(a[i], b[i]))
    KEEL_CASE(ATAN2, std::atan2(a[i], b[i]))
    // Without the cancellation of 1 - b * b.
    KEEL_CASE(TANH_BACKWARD, a[i] * ((1 - b[i]) * (1 + b[i])))
    KEEL_CASE(SIGMOID_BACKWARD, a[i] * (b[i] * (1 - b[i])))
    KEEL_CASE(SILU_BACKWARD, a[i] * silu_slope(b[i]))
    KEEL_CASE(GELU_BACKWARD, static_cast<Number>(a[i] * gelu_slope(b[i])))
    KEEL_CASE(LERP, a[i] + c[i] * (b[i] - a[i]))
    KEEL_CASE(UNIFORM, a[i] + (b[i] - a[i]) * static_cast<Number>(uniform(words[skipped + i])))
    KEEL_CASE(NORMAL, a[i] + b[i] * static_cast<Number>(normal(words, skipped + i)))
    KEEL_CASE(BERNOULLI, static_cast<Number>(uniform(words[skipped + i])) < a[i] ? 1 : 0)
    default:  // functions of bits, which the schema keeps from floats
      return;
  }
}

inline void apply_integers(const Arguments<int64_t>& of) {
  using Number = int64_t;
  if (apply_common(of)) return;
  const int64_t* const a = of.a;
  const int64_t* const b = of.b;
  const int64_t first = of.first;
  switch (of.function) {
    KEEL_CASE(ARANGE, wrapped_add(a[i], wrapped_multiply(b[i], first + i)))
    KEEL_CASE(ABS, a[i] < 0 ? wrapped_negative(a[i]) : a[i])
    KEEL_CASE(FLOOR, a[i])
    KEEL_CASE(CEIL, a[i])
    KEEL_CASE(ROUND, a[i])
    KEEL_CASE(TRUNC, a[i])
    KEEL_CASE(BITWISE_NOT, ~a[i])
    KEEL_CASE(FMOD, rest(a[i], b[i]))
    KEEL_CASE(POW, power(a[i], b[i]))
    KEEL_CASE(BITWISE_AND, a[i] & b[i])
    KEEL_CASE(BITWISE_OR, a[i] | b[i])
    KEEL_CASE(BITWISE_XOR, a[i] ^ b[i])
    default:  // functions of real numbers, which are computed in float64
      return;
  }
}

#undef KEEL_CASE

}  // namespace HWY_NAMESPACE
}  // namespace keel::cpu::kernels
HWY_AFTER_NAMESPACE();

#endif  // KEEL_BACKENDS_CPU_KERNELS_FUNCTIONS_INL_H_
