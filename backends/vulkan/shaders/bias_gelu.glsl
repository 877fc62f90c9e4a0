// SPDX-License-Identifier: Apache-2.0
// gelu in both forms, and its slopes; includes of math.glsl and gelu.glsl come first.

// Below it the tanh form, under 1e-37, is given as 0.
const float kGeluLowest = -10.05;
// Beyond it in size, e^(-t^2/2) leaves the normal numbers, and the distribution function is 0 or 1.
const float kNormalTail = 13.2;

struct Normal {
  float distribution;
  float density;  // e^(-t^2/2), unscaled
};

// Within a few units of both tails' last places: the upper tail is the density times Mills' ratio,
// which is k = 1 / (1 + 0.35 |t|) times a polynomial of k. The square is taken in two parts: that
// of the upper 12 bits is exact, and the exponential multiplies errors by up to 87.
Normal normal_at(float t) {
  const float size = min(abs(t), kNormalTail);
  const float head = uintBitsToFloat(floatBitsToUint(size) & 0xfffff000u);
  precise const float rest = (size - head) * (size + head);
  const float density = exact_exp(-0.5 * (head * head)) * exact_exp(-0.5 * rest);
  const float k = 1.0 / fma(0.35, size, 1.0);
  float series = -0.02886442924;
  series = fma(series, k, 0.14268861073);
  series = fma(series, k, -0.25325383941);
  series = fma(series, k, 0.15659268007);
  series = fma(series, k, -0.02149599317);
  series = fma(series, k, 0.10489490570);
  series = fma(series, k, 0.11997067614);
  series = fma(series, k, 0.13984512874);
  series = fma(series, k, 0.13962224759);
  const float tail = series * k * density;
  return Normal(t < 0.0 ? tail : 1.0 - tail, density);
}

float gelu_of(float t, bool by_erf) {
  if (t < (by_erf ? -kNormalTail : kGeluLowest)) return 0.0;  // spares an infinity times 0
  if (by_erf) return t * normal_at(t).distribution;
  return t / (1.0 + gelu_exponential(t));
}

float gelu_slope(float t, bool by_erf) {
  if (isnan(t)) return t;
  if (by_erf) {
    const Normal at = normal_at(t);
    return fma(0.3989422804 * clamp(t, -kNormalTail, kNormalTail), at.density, at.distribution);
  }
  if (t < kGeluLowest) return 0.0;
  const float v = min(t, -kGeluLowest);  // beyond, 1 - s is 0
  const float e = gelu_exponential(v);
  const float s = 1.0 / (1.0 + e);
  const float slope = kGeluScale * fma(3.0 * kGeluCubic * v, v, 1.0);
  return s * fma(v * slope, e * s, 1.0);
}
