// SPDX-License-Identifier: Apache-2.0
// exp and log to about 1e-7 relative. Vulkan asks for 3 + 2|x| ulp of exp and
// drivers take it: lavapipe's log is a short polynomial.

// 2^n * e^r for |r| <= ln 2 / 2 and n in [-150, 128].
float exp_by_parts(float r, float n) {
  float p = 1.9875691500e-4;
  p = fma(p, r, 1.3981999507e-3);
  p = fma(p, r, 8.3334519073e-3);
  p = fma(p, r, 4.1665795894e-2);
  p = fma(p, r, 1.6666665459e-1);
  p = fma(p, r, 5.0000001201e-1);
  p = fma(p, r * r, r) + 1.0;
  // n may be 128: two factors, since 2^128 is no float.
  const int half_n = int(n) >> 1;
  return p * intBitsToFloat((half_n + 127) << 23) *
         intBitsToFloat((int(n) - half_n + 127) << 23);
}

// e^x for x in [-87, 88.72283], a float's largest logarithm: r = x - n ln 2 in two parts; |precise|
// keeps a compiler from joining them again.
float exp_within_range(float x) {
  const float n = roundEven(x * 1.44269504088896341);
  precise float r = x - n * 0.693359375;
  r = r + n * 2.12194440e-4;
  return exp_by_parts(r, n);
}

// Held at e^88.5 above, 0 below -87 (the float's last normal value); NaN stays NaN.
float exact_exp(float exponent) {
  if (isnan(exponent)) return exponent;
  return exponent < -87.0 ? 0.0 : exp_within_range(clamp(exponent, -87.0, 88.5));
}

// The same, but infinity for what is beyond the floats: a probability by a logsumexp that is not
// its row's own may be any number.
float exp_or_infinity(float exponent) {
  const float kLargest = 88.72283;
  if (exponent > kLargest) return uintBitsToFloat(0x7f800000u);
  if (isnan(exponent)) return exponent;
  return exponent < -87.0 ? 0.0 : exp_within_range(clamp(exponent, -87.0, kLargest));
}

// -infinity for 0, NaN for NaN. For normal x > 0: m in [sqrt(1/2), sqrt(2)), log m by the series of atanh.
float exact_log(float x) {
  if (!(x > 0.0)) return x == 0.0 ? intBitsToFloat(int(0xff800000u)) : x;
  const int bits = floatBitsToInt(x) - 0x3f3504f3;
  const int n = bits >> 23;
  const float m = intBitsToFloat((bits & 0x7fffff) + 0x3f3504f3);
  const float f = m - 1.0;
  const float s = f / (2.0 + f);
  const float z = s * s;
  float p = fma(z, 0.22222222, 0.28571429);
  p = fma(p, z, 0.4);
  p = fma(p, z, 0.66666667);
  precise float result = fma(s * z, p, 2.0 * s);
  result = fma(float(n), -2.12194440e-4, result);
  return fma(float(n), 0.693359375, result);
}
