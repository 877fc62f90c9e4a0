// SPDX-License-Identifier: Apache-2.0
// The functions of elementwise, computed in |T|: float, double or int64_t. The function is a value:
// all threads of a launch take the same way.
#ifndef KEEL_KERNELS_GPU_FUNCTIONS_H_
#define KEEL_KERNELS_GPU_FUNCTIONS_H_

#include "kernels/gpu/math.h"
#include "kernels/gpu/philox.h"
#include "kernels/gpu/tensor_elements.h"

namespace keel::simt {

// ---- integers, which wrap and never trap ------------------------------------------

KEEL_SIMT_FUNCTION int64_t wrapping_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
KEEL_SIMT_FUNCTION int64_t wrapping_sub(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
KEEL_SIMT_FUNCTION int64_t wrapping_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
template <typename T>
KEEL_SIMT_FUNCTION T wrapping_add(T a, T b) {
  return a + b;
}
template <typename T>
KEEL_SIMT_FUNCTION T wrapping_sub(T a, T b) {
  return a - b;
}
template <typename T>
KEEL_SIMT_FUNCTION T wrapping_mul(T a, T b) {
  return a * b;
}

KEEL_SIMT_FUNCTION int64_t negative_of(int64_t a) {
  return wrapping_sub(0, a);
}
KEEL_SIMT_FUNCTION int64_t magnitude_of(int64_t a) {
  return a < 0 ? negative_of(a) : a;
}
template <typename T>
KEEL_SIMT_FUNCTION T negative_of(T a) {
  return -a;
}
template <typename T>
KEEL_SIMT_FUNCTION T magnitude_of(T a) {
  return abs_of(a);
}

// Division by 0 gives 0.
KEEL_SIMT_FUNCTION int64_t quotient(int64_t a, int64_t b) {
  if (b == 0) return 0;
  return b == -1 ? wrapping_sub(0, a) : a / b;
}
KEEL_SIMT_FUNCTION int64_t rest_of(int64_t a, int64_t b) {
  return b == 0 || b == -1 ? 0 : a % b;
}
template <typename T>
KEEL_SIMT_FUNCTION T quotient(T a, T b) {
  return a / b;
}
template <typename T>
KEEL_SIMT_FUNCTION T rest_of(T a, T b) {
  return fmod_of(a, b);
}

template <typename T>
KEEL_SIMT_FUNCTION T remainder_of(T a, T b) {
  const T rest = rest_of(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
KEEL_SIMT_FUNCTION int64_t floor_div_of(int64_t a, int64_t b) {
  const int64_t whole = quotient(a, b);
  return rest_of(a, b) != 0 && (a < 0) != (b < 0) ? whole - 1 : whole;
}
// As Python's: the quotient of what the remainder leaves, which is whole but for its rounding.
template <typename T>
KEEL_SIMT_FUNCTION T floor_div_of(T a, T b) {
  if (b == 0) return a / b;
  const T rest = rest_of(a, b);
  T whole = (a - rest) / b;
  if (rest != 0 && (rest < 0) != (b < 0)) whole -= 1;  // b may be infinite
  const T below = floor_of(whole);
  return whole - below > static_cast<T>(0.5) ? below + 1 : below;
}

KEEL_SIMT_FUNCTION int64_t pow_of(int64_t a, int64_t b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 == 0 ? 1 : -1) : 0;
  int64_t power = 1;
  for (auto left = static_cast<uint64_t>(b); left != 0; left /= 2) {
    if (left % 2 != 0) power = wrapping_mul(power, a);
    a = wrapping_mul(a, a);
  }
  return power;
}

// ---- both -------------------------------------------------------------------------

// NaN wins.
template <typename T>
KEEL_SIMT_FUNCTION T greater_of(T a, T b) {
  return a > b || !(a == a) ? a : b;
}
template <typename T>
KEEL_SIMT_FUNCTION T less_of(T a, T b) {
  return a < b || !(a == a) ? a : b;
}

// The functions of many instructions: called, so that they exist once for each type.
template <typename T>
KEEL_SIMT_CALLED T called_function(Function function, T a, T b, T c, T alpha) {
  switch (function) {
    case Function::floor_div:
      return floor_div_of(a, b);
    case Function::remainder:
      return remainder_of(a, b);
    case Function::fmod:
      return rest_of(a, b);
    case Function::pow:
      return pow_of(a, b);
    case Function::div:
      return quotient(a, b);
    case Function::addcdiv:
      return wrapping_add(a, quotient(wrapping_mul(alpha, b), c));
    default:
      break;
  }
  if constexpr (!IsInteger<T>::value) {
    switch (function) {
      case Function::exp2:
        return exp2_of(a);
      case Function::expm1:
        return expm1_of(a);
      case Function::log2:
        return log2_of(a);
      case Function::log1p:
        return log1p_of(a);
      case Function::sin:
        return sin_of(a);
      case Function::cos:
        return cos_of(a);
      case Function::atan2:
        return atan2_of(a, b);
      default:
        break;
    }
  }
  if constexpr (IsDouble<T>::value) {  // float's are part of the kernel
    switch (function) {
      case Function::rsqrt:
        return 1 / sqrt_of(a);
      case Function::exp:
        return exp_of(a);
      case Function::log:
        return log_of(a);
      case Function::tanh:
        return tanh_of(a);
      case Function::sigmoid:
        return sigmoid_of(a);
      case Function::silu:
        return silu_of(a);
      case Function::erf:
        return erf_of(a);
      case Function::gelu:
        return gelu_of_erf(a);
      case Function::silu_backward:
        return a * silu_slope_of(b);
      case Function::gelu_backward:
        return a * gelu_slope_of_erf(b);
      default:
        break;
    }
  }
  return 0;
}

// Computes |n| elements.
template <typename T, int n>
KEEL_SIMT_FUNCTION void apply(Function function, T alpha, const T (&as)[n], const T (&bs)[n],
                              const T (&cs)[n], T (&y)[n]) {
#define KEEL_SIMT_CASE(name, ...)            \
  case Function::name:                       \
    for (int lane = 0; lane < n; ++lane) {   \
      [[maybe_unused]] const T a = as[lane]; \
      [[maybe_unused]] const T b = bs[lane]; \
      [[maybe_unused]] const T c = cs[lane]; \
      y[lane] = static_cast<T>(__VA_ARGS__); \
    }                                        \
    return;
  switch (function) {
    KEEL_SIMT_CASE(copy, a)
    KEEL_SIMT_CASE(neg, negative_of(a))
    KEEL_SIMT_CASE(abs, magnitude_of(a))
    KEEL_SIMT_CASE(sign, a > 0 ? T{1} : a < 0 ? T{-1} : T{0})
    KEEL_SIMT_CASE(relu, a > 0 || !(a == a) ? a : T{0})
    KEEL_SIMT_CASE(is_nan, !(a == a))
    KEEL_SIMT_CASE(logical_not, a == 0)
    KEEL_SIMT_CASE(add, wrapping_add(a, wrapping_mul(alpha, b)))
    KEEL_SIMT_CASE(sub, wrapping_sub(a, wrapping_mul(alpha, b)))
    KEEL_SIMT_CASE(mul, wrapping_mul(a, b))
    KEEL_SIMT_CASE(maximum, greater_of(a, b))
    KEEL_SIMT_CASE(minimum, less_of(a, b))
    KEEL_SIMT_CASE(eq, a == b)
    KEEL_SIMT_CASE(ne, a != b)
    KEEL_SIMT_CASE(lt, a < b)
    KEEL_SIMT_CASE(le, a <= b)
    KEEL_SIMT_CASE(gt, a > b)
    KEEL_SIMT_CASE(ge, a >= b)
    KEEL_SIMT_CASE(logical_and, a != 0 && b != 0)
    KEEL_SIMT_CASE(logical_or, a != 0 || b != 0)
    KEEL_SIMT_CASE(logical_xor, (a != 0) != (b != 0))
    KEEL_SIMT_CASE(threshold_backward, b <= c ? T{0} : a)
    KEEL_SIMT_CASE(clamp, less_of(greater_of(a, b), c))
    KEEL_SIMT_CASE(where, a != 0 ? b : c)
    KEEL_SIMT_CASE(addcmul, wrapping_add(a, wrapping_mul(alpha, wrapping_mul(b, c))))
    default:
      break;
  }
  if constexpr (IsInteger<T>::value) {
    switch (function) {
      KEEL_SIMT_CASE(floor, a)
      KEEL_SIMT_CASE(ceil, a)
      KEEL_SIMT_CASE(round, a)
      KEEL_SIMT_CASE(trunc, a)
      KEEL_SIMT_CASE(bitwise_not, ~a)
      KEEL_SIMT_CASE(bitwise_and, a & b)
      KEEL_SIMT_CASE(bitwise_or, a | b)
      KEEL_SIMT_CASE(bitwise_xor, a ^ b)
      default:
        break;
    }
  } else {
    switch (function) {
      KEEL_SIMT_CASE(floor, floor_of(a))
      KEEL_SIMT_CASE(ceil, ceil_of(a))
      KEEL_SIMT_CASE(round, round_of(a))
      KEEL_SIMT_CASE(trunc, trunc_of(a))
      KEEL_SIMT_CASE(sqrt, sqrt_of(a))
      KEEL_SIMT_CASE(reciprocal, 1 / a)
      KEEL_SIMT_CASE(div, a / b)
      KEEL_SIMT_CASE(tanh_backward, a * (1 - b * b))
      KEEL_SIMT_CASE(sigmoid_backward, a * b * (1 - b))
      KEEL_SIMT_CASE(lerp, a + c * (b - a))
      default:
        break;
    }
  }
  if constexpr (!IsInteger<T>::value && !IsDouble<T>::value) {
    switch (function) {
      KEEL_SIMT_CASE(rsqrt, 1 / sqrt_of(a))
      KEEL_SIMT_CASE(exp, exp_of(a))
      KEEL_SIMT_CASE(log, log_of(a))
      KEEL_SIMT_CASE(tanh, tanh_of(a))
      KEEL_SIMT_CASE(sigmoid, sigmoid_of(a))
      KEEL_SIMT_CASE(silu, silu_of(a))
      KEEL_SIMT_CASE(erf, erf_of(a))
      KEEL_SIMT_CASE(gelu, gelu_of_erf(a))
      KEEL_SIMT_CASE(silu_backward, a * silu_slope_of(b))
      KEEL_SIMT_CASE(gelu_backward, a * gelu_slope_of_erf(b))
      default:
        break;
    }
  }
#undef KEEL_SIMT_CASE
  for (int lane = 0; lane < n; ++lane) {
    y[lane] = called_function<T>(function, as[lane], bs[lane], cs[lane], alpha);
  }
}

// ---- ranges --------------------------------------------------------------------------

// Each returns a + b |index|.
KEEL_SIMT_FUNCTION int64_t arange_of(int64_t a, int64_t b, uint64_t index) {
  return wrapping_add(a, wrapping_mul(b, static_cast<int64_t>(index)));
}
KEEL_SIMT_FUNCTION double arange_of(double a, double b, uint64_t index) {
  return a + b * static_cast<double>(index);
}
// As accurate as in 64-bit floats, which a chip may lack: exact products of b and the two halves of
// an index below 2^48, in two floats each. fmaf, since a compiler may make a product and a sum one.
KEEL_SIMT_FUNCTION float arange_of(float a, float b, uint64_t index) {
  const auto low = static_cast<float>(static_cast<uint32_t>(index & 0xffffff));
  const float low_product = fmaf(b, low, 0.0F);
  float high = 0;
  float high_product = 0;
  if (index >> 24 != 0) {
    high = static_cast<float>(index >> 24) * 0x1p24F;
    high_product = fmaf(b, high, 0.0F);
  }
  const float plain = a + (low_product + high_product);
  if (!(fabsf(plain) <= 3.402823466e38F)) return plain;
  Accumulator sum;
  sum.add(a);
  sum.add(high_product);
  sum.add(low_product);
  sum.add(fmaf(b, low, -low_product));
  if (high != 0) sum.add(fmaf(b, high, -high_product));
  return sum.value();
}

// ---- random numbers ----------------------------------------------------------------

// The functions by turns of 2 pi, |turns| from 0 to below 1 in steps of 2^-24: the distance from
// the nearest quarter turn is exact.
template <typename T>
struct Turn {
  T sine, cosine;
};
template <typename T>
KEEL_SIMT_FUNCTION Turn<T> turn_of(T turns) {
  const T quarter = floor_of(4 * turns + static_cast<T>(0.5));
  const T angle = static_cast<T>(6.28318530717958647692) * (turns - static_cast<T>(0.25) * quarter);
  const T sine = sin_of(angle);
  const T cosine = cos_of(angle);
  switch (static_cast<int32_t>(quarter) & 3) {
    case 0:
      return {sine, cosine};
    case 1:
      return {cosine, -sine};
    case 2:
      return {-sine, -cosine};
    default:
      return {-cosine, sine};
  }
}

// One element of |normal|, of the two words of its pair.
template <typename T>
KEEL_SIMT_CALLED T normal_of(uint32_t first, uint32_t second, bool is_odd) {
  const T u = static_cast<T>(first >> 8) * static_cast<T>(0x1p-24);
  const T v = static_cast<T>(second >> 8) * static_cast<T>(0x1p-24);
  const Turn<T> turn = turn_of(v);
  return sqrt_of(-2 * log_of(1 - u)) * (is_odd ? turn.sine : turn.cosine);
}

KEEL_SIMT_FUNCTION uint32_t word_of(const Philox& random, uint32_t index) {
  return index < 2 ? (index == 0 ? random.words[0] : random.words[1])
                   : (index == 2 ? random.words[2] : random.words[3]);
}

// The |n| elements from |index| on: 4 begin at a multiple of 4.
template <typename T, int n>
KEEL_SIMT_FUNCTION void apply_random(Function function, uint64_t seed, uint64_t offset,
                                     uint64_t index, const T (&as)[n], const T (&bs)[n],
                                     T (&y)[n]) {
  const Philox random(offset + index / 4, seed);
  const uint32_t first = n == 4 ? 0 : static_cast<uint32_t>(index % 4);
  for (int lane = 0; lane < n; ++lane) {
    const uint32_t place = first + lane;
    if (function == Function::normal) {
      const T drawn =
          normal_of<T>(word_of(random, place & 2), word_of(random, place | 1), place % 2 != 0);
      y[lane] = as[lane] + bs[lane] * drawn;
    } else {
      const T u = static_cast<T>(static_cast<float>(word_of(random, place) >> 8) * 0x1p-24F);
      y[lane] = function == Function::uniform ? as[lane] + (bs[lane] - as[lane]) * u
                : u < as[lane]                ? T{1}
                                              : T{0};
    }
  }
}

}  // namespace keel::simt

#endif  // KEEL_KERNELS_GPU_FUNCTIONS_H_
