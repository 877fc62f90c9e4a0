// SPDX-License-Identifier: Apache-2.0
// Rows of layer_norm, rms_norm, softmax and their gradients, each on the calling thread; see
// kernels.h. The order of every sum depends on the length of the row alone.
#ifndef KEEL_BACKENDS_CPU_KERNELS_NORM_H_
#define KEEL_BACKENDS_CPU_KERNELS_NORM_H_

#include <cstdint>

#include "backends/cpu/float_rows.h"

namespace keel::cpu::kernels {

// ---- normalisations (kernels_norm.cc) -----------------------------------------

struct Moments {
  double mean;
  double variance;
};
// Of one row that is read once, |count| > 0: deviations are taken from the mean of their block.
Moments moments(const ReadFloats& x, int64_t count);
// The mean of x[j]^2.
double mean_square(const ReadFloats& x, int64_t count);

// The same of any row. moments() and mean_square() have squares in float32, which rows beyond 2^63,
// or within 2^-63, leave; these take several times as long.
Moments moments_in_float64(const ReadFloats& x, int64_t count);
double mean_square_in_float64(const ReadFloats& x, int64_t count);

struct NormFactors {
  float mean;  // of scaled elements; 0: none is taken off
  float rstd;
  float scale = 1;  // a power of two
  float shift = 0;
};
// y[j] = ((x[j] * scale - mean) * rstd + shift) * gamma[j] + beta[j]; |beta| may be none.
void normalise(const NormFactors& factors, const ReadFloats& x, const ReadFloats& gamma,
               const ReadFloats& beta, const WrittenFloats& y, int64_t count);
// dx of one row, without a scale or shift; adds dy * xhat to |dgamma| and dy to |dbeta|, which is
// NULL where no mean was taken off.
void normalise_backward(const NormFactors& factors, const ReadFloats& dy, const ReadFloats& x,
                        const ReadFloats& gamma, const WrittenFloats& dx, float* dgamma,
                        float* dbeta, int64_t count);

// ---- softmax (kernels_softmax.cc) ----------------------------------------------

// Columns from |visible| on are hidden, and those whose |mask|, unless NULL, is not 0.
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

#endif  // KEEL_BACKENDS_CPU_KERNELS_NORM_H_
