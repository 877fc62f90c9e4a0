// SPDX-License-Identifier: Apache-2.0
// Functions of elementwise for integers.

#define WHOLE(function, x) (x)

// Any number for b = 0. CPUs trap this quotient, and that of the lowest integer by -1, also where a
// driver runs both sides of a branch: such a b is replaced.
int64_t quotient(int64_t a, int64_t b) {
  const bool is_safe = b != int64_t(0) && b != int64_t(-1);
  const int64_t result = a / (is_safe ? b : int64_t(1));
  return b == int64_t(-1) ? -a : result;
}

// With the sign of a.
int64_t modulo(int64_t a, int64_t b) { return a - b * quotient(a, b); }

bool differ_in_sign(int64_t rest, int64_t b) {
  return rest != int64_t(0) && (rest < int64_t(0)) != (b < int64_t(0));
}

int64_t remainder(int64_t a, int64_t b) {
  const int64_t rest = modulo(a, b);
  return differ_in_sign(rest, b) ? rest + b : rest;
}

int64_t floor_quotient(int64_t a, int64_t b) {
  const int64_t rest = modulo(a, b);
  return quotient(a, b) - int64_t(differ_in_sign(rest, b));
}

// Truncated: 0 for negative powers of all but 1 and -1.
int64_t power(int64_t a, int64_t b) {
  if (b < int64_t(0)) {
    if (a == int64_t(1)) return a;
    if (a != int64_t(-1)) return int64_t(0);
    b = b & int64_t(1);
  }
  int64_t result = int64_t(1);
  while (b != int64_t(0)) {
    if ((b & int64_t(1)) != int64_t(0)) result *= a;
    a *= a;
    b = b >> 1;
  }
  return result;
}
