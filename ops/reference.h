// SPDX-License-Identifier: Apache-2.0
// What every operator should compute, in float64 on host memory: slow, plain, and the
// judge of all kernels.
#ifndef KEEL_OPS_REFERENCE_H_
#define KEEL_OPS_REFERENCE_H_

#include <keel/abi.h>

#include <cstdint>
#include <span>
#include <vector>

#include "ops/schema.h"

namespace keel::ops {

// One output, row-major. |magnitudes| is the size of what went into an element (for a
// sum of k terms: sqrt(k) * sum of |terms|, after which rounding errors grow): the
// Tolerance's |scale| is counted in it.
struct ReferenceOutput {
  std::vector<double> values;
  std::vector<double> magnitudes;
};

struct ReferenceResult {
  std::vector<ReferenceOutput> outputs;
};

// Computes |call|, whose tensors lie in host memory and may be strided; writes nothing
// but |out_result|, so outputs in place are fine. The status is check_call's.
keel_status run_reference(const keel_op_call& call, ReferenceResult* out_result);

// |value| as an element of |dtype|, back in double: rounded to float32 and from there to
// the 16- and 8-bit types, to nearest with ties to even; truncated and saturated for integers.
double round_to_dtype(double value, keel_dtype dtype);
// Element |index| of a host tensor in row-major order: any dtype, any strides.
std::vector<double> read_tensor(const keel_tensor& tensor);
// Stores |value| at |element| of |data|, as round_to_dtype rounds it.
void store_element(void* data, keel_dtype dtype, int64_t element, double value);

// Whether |got|, an element of |dtype|, is close enough. NaN wants NaN; beyond the
// largest number either that or infinity counts, by the same bound.
bool element_matches(const Tolerance& tolerance, keel_dtype dtype, double got, double value,
                     double magnitude);
// Normalised mean-square error over the elements that are finite on both sides; 0 when
// the reference is all zero. Errors up to |absolute| (Tolerance::absolute) do not count.
double normalised_error(std::span<const double> got, std::span<const double> values,
                        double absolute);

}  // namespace keel::ops

#endif  // KEEL_OPS_REFERENCE_H_
