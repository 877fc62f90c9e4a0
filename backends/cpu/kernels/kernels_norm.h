// SPDX-License-Identifier: Apache-2.0
// Rows of layer_norm, rms_norm, softmax and their gradients, each on the calling thread; see
// kernels.h. The order of every sum depends on the length of the row alone.
#ifndef KEEL_BACKENDS_CPU_KERNELS_KERNELS_NORM_H_
#define KEEL_BACKENDS_CPU_KERNELS_KERNELS_NORM_H_

#include <cstdint>

#include "backends/cpu/kernels/float_rows.h"

namespace keel::cpu::kernels {

// ---- normalisations (kernels_norm.cc) -----------------------------------------

struct Moments {
  double mean;
  double variance;
};
// The moments of one row, |count| > 0, in a single pass: deviations are taken from the mean of
// their block.
Moments moments(const ReadFloats& x, int64_t count);
// The mean of x[j]^2.
double mean_square(const ReadFloats& x, int64_t count);

// Like moments and mean_square, for rows of any magnitude. The float32 versions square in float32,
// whose range rows beyond 2^63, or within 2^-63, leave; the float64 versions take several times as
// long.
Moments moments_in_float64(const ReadFloats& x, int64_t count);
double mean_square_in_float64(const ReadFloats& x, int64_t count);

struct NormFactors {
  float mean;  // of scaled elements; 0: no mean is subtracted
  float rstd;
  float scale = 1;  // a power of two
  float shift = 0;
};
// y[j] = ((x[j] * scale - mean) * rstd + shift) * gamma[j] + beta[j]; |beta| may be absent.
void normalise(const NormFactors& factors, const ReadFloats& x, const ReadFloats& gamma,
               const ReadFloats& beta, const WrittenFloats& y, int64_t count);
// dx of one row, without a scale or shift. Adds dy * xhat to |dgamma| and dy to |dbeta|, which is
// NULL when no mean was subtracted.
void normalise_backward(const NormFactors& factors, const ReadFloats& dy, const ReadFloats& x,
                        const ReadFloats& gamma, const WrittenFloats& dx, float* dgamma,
                        float* dbeta, int64_t count);

// ---- softmax (kernels_softmax.cc) ----------------------------------------------

// Masks columns from |visible| on, and columns whose |mask| is not 0; |mask| may be NULL.
struct SoftmaxRow {
  float scale;
  int64_t visible;
  const uint8_t* mask;
};
void softmax(const SoftmaxRow& row, const ReadFloats& x, const WrittenFloats& y, int64_t count);
// dx[j] = scale * y[j] * (dy[j] - the sum of y * dy).
void softmax_backward(float scale, const ReadFloats& y, const ReadFloats& dy,
                      const WrittenFloats& dx, int64_t count);

}  // namespace keel::cpu::kernels

#endif  // KEEL_BACKENDS_CPU_KERNELS_KERNELS_NORM_H_
