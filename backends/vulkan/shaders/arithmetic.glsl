// SPDX-License-Identifier: Apache-2.0
// Functions of elementwise for a Value that is a float or a double.

#define WHOLE(function, x) function(x)

// roundEven of doubles rounds some halves to odd on lavapipe.
Value nearest_whole(Value x) {
#if KEEL_COMPUTE == 64
  const Value below = floor(x);
  const Value rest = x - below;
  const bool is_odd = below != Value(2) * floor(Value(0.5) * below);
  return rest > Value(0.5) || (rest == Value(0.5) && is_odd) ? below + Value(1) : below;
#else
  return roundEven(x);
#endif
}

Value quotient(Value a, Value b) { return a / b; }

// The remainder of a / b with the sign of a, exact: subtracts b times powers of two.
Value modulo(Value a, Value b) {
  const Value size = abs(b);
  Value rest = abs(a);
  if (is_nan(a) || is_nan(b) || size == Value(0) || rest == infinity()) return nan();
  // As many steps as there are exponents: a driver that flushes subnormals would never end.
  const int exponents = KEEL_COMPUTE == 64 ? 2100 : 280;
  Value step_ = size;
  int steps_ = 1;
  for (; steps_ < exponents && step_ <= rest * Value(0.5); ++steps_) step_ *= Value(2);
  for (; steps_ > 0 && rest >= size; --steps_) {
    if (rest >= step_) rest -= step_;
    step_ *= Value(0.5);
  }
  return a < Value(0) ? -rest : rest;
}

bool differ_in_sign(Value rest, Value b) {
  return rest != Value(0) && (rest < Value(0)) != (b < Value(0));
}

Value remainder(Value a, Value b) {
  const Value rest = modulo(a, b);
  return differ_in_sign(rest, b) ? rest + b : rest;
}

Value floor_quotient(Value a, Value b) {
  if (b == Value(0)) return a / b;
  const Value rest = modulo(a, b);
  const Value quotient = (a - rest) / b;
  return nearest_whole(differ_in_sign(rest, b) ? quotient - Value(1) : quotient);
}
