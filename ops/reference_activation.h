// SPDX-License-Identifier: Apache-2.0
// The activations in float64, for the references of all operators that end in one; and of each
// value its size, as large as the relative error of a kernel may grow, in units of
// transcendental()'s scale.
#ifndef KEEL_OPS_REFERENCE_ACTIVATION_H_
#define KEEL_OPS_REFERENCE_ACTIVATION_H_

namespace keel::ops {

double sigmoid(double t);
// 0 at minus infinity, infinity at infinity.
double silu(double t);
double silu_size(double t);
// 0 at minus infinity, 1 at infinity.
double silu_slope(double t);
double silu_slope_size(double t);

// By erf, or else by tanh; at infinities as silu.
double gelu(bool erf, double t);
double gelu_slope(bool erf, double t);
double gelu_size(bool erf, double t);

}  // namespace keel::ops

#endif  // KEEL_OPS_REFERENCE_ACTIVATION_H_
