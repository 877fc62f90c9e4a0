// SPDX-License-Identifier: Apache-2.0
// Activations in float64 for the references of all operators with an activation. Each *_size is the
// scale of the value's error: the bound of a kernel's relative error, in units of
// transcendental()'s scale.
#ifndef KEEL_OPS_TESTING_REFERENCE_ACTIVATION_H_
#define KEEL_OPS_TESTING_REFERENCE_ACTIVATION_H_

namespace keel::ops {

double sigmoid(double t);
// 0 at minus infinity, infinity at infinity.
double silu(double t);
double silu_size(double t);
// 0 at minus infinity, 1 at infinity.
double silu_slope(double t);
double silu_slope_size(double t);

// Computed with erf or tanh; limits at infinities as for silu.
double gelu(bool erf, double t);
double gelu_slope(bool erf, double t);
double gelu_size(bool erf, double t);

}  // namespace keel::ops

#endif  // KEEL_OPS_TESTING_REFERENCE_ACTIVATION_H_
