// SPDX-License-Identifier: Apache-2.0
// Functions of floats to a few units of the last place; includes of value_32.glsl, math.glsl,
// gelu.glsl, sigmoid.glsl and bias_gelu.glsl come first.

// a * b - product exactly, where |product| is a * b rounded. In parts of 12 bits: a driver may round
// within fma.
float product_rest(float a, float b, float product) {
  const float a_high = uintBitsToFloat(floatBitsToUint(a) & 0xfffff000u);
  const float b_high = uintBitsToFloat(floatBitsToUint(b) & 0xfffff000u);
  precise const float a_low = a - a_high;
  precise const float b_low = b - b_high;
  precise const float rest =
      ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low;
  return rest;
}

// log x = n ln 2 + high + low.
struct Logarithm {
  float n;
  float high;
  float low;
};

// For finite x > 0. With x = 2^n m, m in [sqrt(1/2), sqrt(2)): log m by the series of atanh s, of
// which the rounding error is kept.
Logarithm log_parts(float x) {
  float shift = 0.0;
  if (x < 1.17549435e-38) {
    x *= 16777216.0;
    shift = -24.0;
  }
  const int bits = floatBitsToInt(x) - 0x3f3504f3;
  const float n = float(bits >> 23) + shift;
  const float f = intBitsToFloat((bits & 0x7fffff) + 0x3f3504f3) - 1.0;
  precise const float t = 2.0 + f;
  precise const float t_rest = f - (t - 2.0);
  const float s = f / t;
  precise const float product = s * t;
  precise const float s_rest = (((f - product) - product_rest(s, t, product)) - s * t_rest) / t;
  const float z = s * s;
  float p = fma(z, 0.22222222, 0.28571429);
  p = fma(p, z, 0.4);
  p = fma(p, z, 0.66666667);
  return Logarithm(n, 2.0 * s, fma(s * z, p, 2.0 * s_rest));
}

// Whether the logarithm of x is computed: log_of_rest returns that of x that is not finite or not
// above 0.
bool has_log(float x) { return x > 0.0 && x < infinity(); }
float log_of_rest(float x) {
  if (x == 0.0) return -infinity();
  return x > 0.0 ? x : nan();
}

float natural_log(float x) {
  if (is_nan(x)) return x;
  if (!has_log(x)) return log_of_rest(x);
  const Logarithm parts = log_parts(x);
  precise const float result =
      fma(parts.n, 0.693359375, parts.high + fma(parts.n, -2.12194440e-4, parts.low));
  return result;
}

float binary_log(float x) {
  if (is_nan(x)) return x;
  if (!has_log(x)) return log_of_rest(x);
  const Logarithm parts = log_parts(x);
  return fma(parts.high + parts.low, 1.44269504, parts.n);
}

float log_of_one_and(float x) {
  if (is_nan(x)) return x;
  precise const float sum = 1.0 + x;
  if (!has_log(sum)) return log_of_rest(sum);
  precise const float rest = x - (sum - 1.0);
  return natural_log(sum) + rest / sum;
}

float binary_exp(float x) {
  if (is_nan(x)) return x;
  if (x >= 128.0) return infinity();
  if (x < -150.0) return 0.0;
  const float n = roundEven(x);
  return exp_by_parts((x - n) * 0.69314718056, n);
}

float exp_less_one(float x) {
  if (!(abs(x) < 0.5)) return exp_or_infinity(x) - 1.0;
  float p = 0.00019944874443;
  p = fma(p, x, 0.0013982186046);
  p = fma(p, x, 0.0083332361335);
  p = fma(p, x, 0.04166579123);
  p = fma(p, x, 0.16666666802);
  p = fma(p, x, 0.50000001216);
  return fma(x * x, p, x);
}

float hyperbolic_tangent(float x) {
  if (is_nan(x)) return x;
  const float size = abs(x);
  const float z = x * x;
  if (z < 0.3) {
    float p = -0.0066255973147;
    p = fma(p, z, 0.021317524577);
    p = fma(p, z, -0.053910749082);
    p = fma(p, z, 0.1333312041);
    p = fma(p, z, -0.33333332059);
    return fma(p * z, x, x);
  }
  const float value = 1.0 - 2.0 / (exact_exp(2.0 * min(size, 40.0)) + 1.0);
  return x < 0.0 ? -value : value;
}

float error_function(float x) {
  if (is_nan(x)) return x;
  const float size = abs(x);
  if (size < 0.75) {
    const float z = x * x;
    float p = -0.00067564795692;
    p = fma(p, z, 0.0051153321126);
    p = fma(p, z, -0.026835114569);
    p = fma(p, z, 0.11283386538);
    p = fma(p, z, -0.37612619469);
    p = fma(p, z, 1.1283791656);
    return p * x;
  }
  const float value = 1.0 - 2.0 * normal_at(-1.41421356 * min(size, 9.0)).distribution;
  return x < 0.0 ? -value : value;
}

float sigmoid_of(float x) { return sigmoid(x).value; }
float slope_of_silu(float x) { return silu_slope(x, sigmoid(x)); }
float gelu_by_erf(float x) { return is_nan(x) ? x : gelu_of(x, true); }
float gelu_by_erf_slope(float x) { return gelu_slope(x, true); }

float power(float x, float y) {
  if (y == 0.0 || x == 1.0) return 1.0;
  if (is_nan(x) || is_nan(y)) return nan();
  const float size = abs(x);
  const bool is_whole = abs(y) >= 8388608.0 || floor(y) == y;
  const bool is_odd = is_whole && abs(y) < 16777216.0 && (int(y) & 1) != 0;
  if (x < 0.0 && !is_whole && size < infinity()) return nan();
  float result;
  if (size == 1.0) {
    result = 1.0;
  } else if (size == 0.0 || size == infinity()) {
    result = (size == 0.0) == (y < 0.0) ? infinity() : 0.0;
  } else if (abs(y) == infinity()) {
    result = (size > 1.0) == (y > 0.0) ? infinity() : 0.0;
  } else {
    // y log x as a sum of two floats: the exponential multiplies its error.
    const Logarithm parts = log_parts(size);
    precise const float whole = parts.n * 0.693359375;
    precise const float sum = whole + parts.high;
    precise const float part = sum - whole;
    precise const float rest = (whole - (sum - part)) + (parts.high - part);
    precise const float low = rest + fma(parts.n, -2.12194440e-4, parts.low);
    precise const float high = sum + low;
    precise const float high_rest = low - (high - sum);
    precise const float product = y * high;
    precise const float exponent_rest = product_rest(y, high, product) + y * high_rest;
    result = exp_or_infinity(product);
    if (result < infinity()) result = fma(result, clamp(exponent_rest, -1.0, 1.0), result);
  }
  return is_odd && (floatBitsToUint(x) & 0x80000000u) != 0 ? -result : result;
}
