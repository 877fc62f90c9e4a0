// SPDX-License-Identifier: Apache-2.0
// Functions of doubles, of which GLSL has none, to a few units of the last place: series, long
// enough after the argument has been reduced. An include of value_64.glsl comes first.

// Unrolled loops take a software driver long to compile.
#define LOOP [[dont_unroll]]

const double kLn2High = 0.69314718036912381649LF;  // 32 bits
const double kLn2Low = 1.90821492927058770002e-10LF;
const double kHalfPi = 1.57079632679489661923LF;

double power_of_two(int n) { return packDouble2x32(uvec2(0, uint(n + 1023) << 20)); }

// (e^r - 1 - r) / r^2 for |r| <= 1/2.
double exp_rest(double r) {
  double sum = 0.0LF;
  double term = 1.0LF;
  LOOP for (int k = 17; k > 2; --k) sum = (sum + 1.0LF) * r / double(k);
  return 0.5LF * (1.0LF + sum);
}

// 2^n e^r, for |r| <= ln 2 / 2.
double exp_by_parts(double r, double n) {
  const double value = 1.0LF + (r + r * r * exp_rest(r));
  const int half_n = int(n) >> 1;
  return value * power_of_two(half_n) * power_of_two(int(n) - half_n);
}

double exp_or_infinity(double x) {
  if (is_nan(x)) return x;
  if (x > 709.782712893384LF) return infinity();
  if (x < -745.2LF) return 0.0LF;
  const double n = roundEven(x * 1.44269504088896340736LF);
  precise const double high = x - n * kLn2High;
  precise const double r = high - n * kLn2Low;
  return exp_by_parts(r, n);
}

double binary_exp(double x) {
  if (is_nan(x)) return x;
  if (x >= 1024.0LF) return infinity();
  if (x < -1075.0LF) return 0.0LF;
  const double n = roundEven(x);
  return exp_by_parts((x - n) * 0.69314718055994530942LF, n);
}

double exp_less_one(double x) {
  if (abs(x) < 0.5LF) return x + x * x * exp_rest(x);
  return exp_or_infinity(x) - 1.0LF;
}

// log x = n ln 2 + rest for finite x > 0: the series of atanh of (m - 1) / (m + 1), x = 2^n m.
double log_parts(double x, out double n) {
  n = 0.0LF;
  if (x < 2.2250738585072014e-308LF) {
    x *= 18014398509481984.0LF;  // 2^54
    n = -54.0LF;
  }
  uvec2 bits = unpackDouble2x32(x);
  const uint shifted = bits.y - 0x3fe6a09eu;  // sqrt(1/2)
  n += double(int(shifted) >> 20);
  bits.y = (shifted & 0xfffffu) + 0x3fe6a09eu;
  const double f = packDouble2x32(bits) - 1.0LF;
  const double s = f / (2.0LF + f);
  const double z = s * s;
  double sum = 0.0LF;
  LOOP for (int k = 25; k > 1; k -= 2) sum = (sum + 1.0LF / double(k)) * z;
  // 2 s = f - s f is rounded to f's places.
  return f - s * (f - 2.0LF * sum);
}

bool has_log(double x) { return x > 0.0LF && x < infinity(); }
double log_of_rest(double x) {
  if (x == 0.0LF) return -infinity();
  return x > 0.0LF ? x : nan();
}

double natural_log(double x) {
  if (is_nan(x)) return x;
  if (!has_log(x)) return log_of_rest(x);
  double n;
  const double rest = log_parts(x, n);
  return n * kLn2High + (rest + n * kLn2Low);
}

double binary_log(double x) {
  if (is_nan(x)) return x;
  if (!has_log(x)) return log_of_rest(x);
  double n;
  const double rest = log_parts(x, n);
  return n + rest * 1.44269504088896340736LF;
}

double log_of_one_and(double x) {
  if (is_nan(x)) return x;
  precise const double sum = 1.0LF + x;
  if (!has_log(sum)) return log_of_rest(sum);
  precise const double rest = x - (sum - 1.0LF);
  return natural_log(sum) + rest / sum;
}

double sigmoid_of(double x) { return 1.0LF / (1.0LF + exp_or_infinity(-x)); }

double hyperbolic_tangent(double x) {
  if (is_nan(x)) return x;
  const double size = min(abs(x), 40.0LF);
  const double e = exp_less_one(2.0LF * size);
  const double value = e / (e + 2.0LF);
  return x < 0.0LF ? -value : value;
}

double silu(double x) { return x < -745.2LF ? 0.0LF : x * sigmoid_of(x); }

// s (1 + x (1 - s)).
double slope_of_silu(double x) {
  if (is_nan(x)) return x;
  if (x < -708.0LF) return 0.0LF;
  const double held = min(x, 700.0LF);
  const double e = exp_or_infinity(-held);
  const double s = 1.0LF / (1.0LF + e);
  return s * (1.0LF + held * (e * s));
}

// e^(-x^2): the square of the upper digits is exact.
double gaussian(double x) {
  const double head = double(float(x));
  precise const double rest = (x - head) * (x + head);
  return exp_or_infinity(-(head * head)) * exp_or_infinity(-rest);
}

// 1 - erf x for x >= 2.5, by its continued fraction.
double erfc_tail(double x) {
  if (x > 27.5LF) return 0.0LF;
  double fraction = x;
  LOOP for (int k = 60; k > 0; --k) fraction = x + 0.5LF * double(k) / fraction;
  return gaussian(x) * 0.56418958354775628695LF / fraction;
}

// erf x for |x| < 2.5: a series of positive terms.
double erf_series(double x) {
  const double z = 2.0LF * x * x;
  double sum = 0.0LF;
  LOOP for (int k = 101; k > 1; k -= 2) sum = (sum + 1.0LF) * z / double(k);
  return 1.12837916709551257390LF * x * (1.0LF + sum) * gaussian(x);
}

double error_function(double x) {
  if (is_nan(x)) return x;
  if (abs(x) < 2.5LF) return erf_series(x);
  const double value = 1.0LF - erfc_tail(abs(x));
  return x < 0.0LF ? -value : value;
}

// The distribution function of the normal distribution.
double normal_distribution(double x) {
  const double t = 0.70710678118654752440LF * x;
  if (abs(t) < 2.5LF) return 0.5LF * (1.0LF + erf_series(t));
  const double tail = 0.5LF * erfc_tail(abs(t));
  return t < 0.0LF ? tail : 1.0LF - tail;
}

double gelu_by_erf(double x) {
  if (is_nan(x)) return x;
  return x < -38.0LF ? 0.0LF : x * normal_distribution(x);
}

double gelu_by_erf_slope(double x) {
  if (is_nan(x)) return x;
  if (x < -38.5LF) return 0.0LF;
  const double held = min(x, 38.0LF);
  return normal_distribution(held) +
         0.39894228040143267794LF * held * gaussian(0.70710678118654752440LF * held);
}

// sin(r + quadrant pi/2) for r in [-pi/4, pi/4].
double sine_by_quadrant(double r, uint quadrant) {
  const double z = r * r;
  const int first = (quadrant & 1u) == 0 ? 19 : 18;
  double sum = 0.0LF;
  LOOP for (int k = first; k > 1; k -= 2) sum = -(sum + 1.0LF) * z / double(k * (k - 1));
  const double value = (quadrant & 1u) == 0 ? r + r * sum : 1.0LF + sum;
  return (quadrant & 2u) == 0 ? value : -value;
}

// sin x, or cos x with |turn| 1. Beyond 10^6 in size the error grows with x.
double sine(double x, uint turn) {
  if (is_nan(x) || abs(x) == infinity()) return nan();
  const double n = roundEven(x * 0.63661977236758134308LF);
  precise const double high = x - n * 1.57079632673412561417LF;  // of 33 bits
  precise const double r = high - n * 6.07710050650619224932e-11LF;
  return sine_by_quadrant(r, uint(n - 4.0LF * floor(0.25LF * n)) + turn);
}

bool is_negative(double x) { return (unpackDouble2x32(x).y & 0x80000000u) != 0; }

// The angle is halved twice before the series.
double arc_tangent(double y, double x) {
  if (is_nan(x) || is_nan(y)) return nan();
  const double rise = abs(y);
  const double run = abs(x);
  const double larger_ = max(rise, run);
  double t = min(rise, run) / larger_;
  if (larger_ == 0.0LF) t = 0.0LF;
  if (larger_ == infinity()) t = rise == run ? 1.0LF : 0.0LF;
  t = t / (1.0LF + sqrt(1.0LF + t * t));
  t = t / (1.0LF + sqrt(1.0LF + t * t));
  const double z = t * t;
  double sum = 0.0LF;
  LOOP for (int k = 25; k > 1; k -= 2) sum = z * (1.0LF / double(k) - sum);
  double angle = 4.0LF * (t - t * sum);
  if (rise > run) angle = kHalfPi - angle;
  if (is_negative(x)) angle = 2.0LF * kHalfPi - angle;
  return is_negative(y) ? -angle : angle;
}

double power(double x, double y) {
  if (y == 0.0LF || x == 1.0LF) return 1.0LF;
  if (is_nan(x) || is_nan(y)) return nan();
  const double size = abs(x);
  const bool is_whole = floor(y) == y;
  const bool is_odd = is_whole && y - 2.0LF * floor(0.5LF * y) == 1.0LF;
  if (x < 0.0LF && !is_whole && size < infinity()) return nan();
  double result;
  if (size == 1.0LF) {
    result = 1.0LF;
  } else if (size == 0.0LF || size == infinity()) {
    result = (size == 0.0LF) == (y < 0.0LF) ? infinity() : 0.0LF;
  } else if (abs(y) == infinity()) {
    result = (size > 1.0LF) == (y > 0.0LF) ? infinity() : 0.0LF;
  } else {
    result = exp_or_infinity(y * natural_log(size));
  }
  return is_odd && is_negative(x) ? -result : result;
}
