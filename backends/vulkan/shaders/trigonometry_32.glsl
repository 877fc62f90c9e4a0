// SPDX-License-Identifier: Apache-2.0
// sin, cos and atan2 to about 2e-7 for every float: Vulkan asks for an absolute error of 2^-11
// within [-pi, pi], and for nothing beyond. An include of value_32.glsl comes first.

// 2 / pi: 32 zeros before the binary point, and 224 bits.
const uint kTwoOverPi[8] = {0u,          0xa2f9836eu, 0x4e441529u, 0xfc2757d1u,
                            0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu};

// 32 bits of 2 / pi from bit |at| on.
uint two_over_pi_at(uint at) {
  const uint word = kTwoOverPi[at / 32];
  const uint shift = at % 32;
  return shift == 0 ? word : word << shift | kTwoOverPi[at / 32 + 1] >> (32 - shift);
}

const float kHalfPi = 1.57079632679;

// Returns the quadrant n of a finite x, modulo 4, and r = x - n pi/2 in [-pi/4, pi/4]. The product
// of the 24 bits of x and those 96 bits of 2 / pi that matter: bits of a weight of 4 and more are
// whole turns (Payne and Hanek).
uint find_quadrant(float x, out float r) {
  r = x;
  const uint bits = floatBitsToUint(x) & 0x7fffffffu;
  if (bits <= 0x3f490fdbu) return 0;  // pi/4
  const uint mantissa = (bits & 0x7fffffu) | 0x800000u;
  const uint at = (bits >> 23) - 120u;  // from -2 of the exponent of the mantissa's last bit
  uint high0, high1, low0, low1, carry;
  umulExtended(mantissa, two_over_pi_at(at + 64u), high0, low0);
  umulExtended(mantissa, two_over_pi_at(at + 32u), high1, low1);
  const uint middle = uaddCarry(low1, high0, carry);
  const uint top = mantissa * two_over_pi_at(at) + high1 + carry;
  uint quadrant = top >> 30;
  uvec2 part = uvec2(middle << 2, top << 2 | middle >> 30);  // of a quadrant, the lower half first
  const bool over_half = (part.y & 0x80000000u) != 0;
  if (over_half) {
    ++quadrant;
    part = ~part;  // off by the last place
  }
  r = kHalfPi * (float(part.y) * 2.3283064365386963e-10 + float(part.x) * 5.421010862427522e-20);
  if (over_half) r = -r;
  if (x < 0.0) {
    r = -r;
    quadrant = 0u - quadrant;
  }
  return quadrant & 3u;
}

// sin(r + quadrant pi/2) for r in [-pi/4, pi/4].
float sine_by_quadrant(float r, uint quadrant) {
  const float z = r * r;
  float value;
  if ((quadrant & 1u) == 0) {
    value = fma(z * r, fma(fma(fma(2.7249925824e-06, z, -0.00019840086736), z, 0.0083333318747), z,
                           -0.16666666664), r);
  } else {
    value = fma(z * z, fma(fma(2.4800600377e-05, z, -0.0013888887672), z, 0.041666666664),
                fma(-0.5, z, 1.0));
  }
  return (quadrant & 2u) == 0 ? value : -value;
}

// sin x, or cos x with |turn| 1.
float sine(float x, uint turn) {
  if ((floatBitsToUint(x) & 0x7f800000u) == 0x7f800000u) return nan();
  float r;
  const uint quadrant = find_quadrant(x, r);
  return sine_by_quadrant(r, quadrant + turn);
}

bool is_negative(float x) { return (floatBitsToUint(x) & 0x80000000u) != 0; }

float arc_tangent(float y, float x) {
  if (is_nan(x) || is_nan(y)) return nan();
  const float rise = abs(y);
  const float run = abs(x);
  const float larger = max(rise, run);
  float t = min(rise, run) / larger;
  if (larger == 0.0) t = 0.0;
  if (larger == infinity()) t = rise == run ? 1.0 : 0.0;
  const bool is_steep = t > 0.41421356;  // tan(pi/8)
  if (is_steep) t = (t - 1.0) / (t + 1.0);
  const float z = t * t;
  float angle = -0.064519281624;
  angle = fma(angle, z, 0.10743731472);
  angle = fma(angle, z, -0.14263955595);
  angle = fma(angle, z, 0.19999540484);
  angle = fma(angle, z, -0.33333331761);
  angle = fma(angle * z, t, t);
  if (is_steep) angle += 0.785398163397;
  if (rise > run) angle = kHalfPi - angle;
  if (is_negative(x)) angle = 3.14159265359 - angle;
  return is_negative(y) ? -angle : angle;
}
