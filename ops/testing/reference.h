// SPDX-License-Identifier: Apache-2.0
// Float64 reference of every operator on host memory: slow and plain; all kernels are compared with
// the reference.
#ifndef KEEL_OPS_TESTING_REFERENCE_H_
#define KEEL_OPS_TESTING_REFERENCE_H_

#include <keel/abi.h>

#include <cstdint>
#include <span>
#include <vector>

#include "ops/schema.h"

namespace keel::ops {

// One output, row-major. |magnitudes| is the size of an element's operands (for a sum of k terms:
// sqrt(k) * sum of |terms|, by which rounding errors grow). Tolerance::scale multiplies the
// magnitude.
struct ReferenceOutput {
  std::vector<double> values;
  std::vector<double> magnitudes;
  // Multiplies Tolerance::nmse: above 1 where partial results may be rounded too, as the mean
  // square of all that is rounded for a value, in units of that of the values.
  double roundings = 1;
};

struct ReferenceResult {
  std::vector<ReferenceOutput> outputs;
};

// Computes |call|, whose tensors lie in host memory and may be strided. Writes only |out_result|,
// so in-place outputs are allowed. Returns the status of check_call.
keel_status run_reference(const keel_op_call& call, ReferenceResult* out_result);

// Rounds |value| to |dtype| and converts the result back to double: to float32 and from there to
// the 16- and 8-bit types, to nearest with ties to even; integers are truncated and saturated.
double round_to_dtype(double value, keel_dtype dtype);
// The elements of a host tensor in row-major order; any dtype, any strides.
std::vector<double> read_tensor(const keel_tensor& tensor);
// Stores |value| at |element| of |data|, rounded by round_to_dtype.
void store_element(void* data, keel_dtype dtype, int64_t element, double value);

// The tolerance of |call|: |tolerance|, its combination's, unless a function of elementwise or
// reduce is allowed more.
Tolerance tolerance_of(const keel_op_call& call, const Tolerance& tolerance);
// The largest deviation from |value| before the rounding to a dtype.
double bound_of(const Tolerance& tolerance, double value, double magnitude);
// Whether |got|, an element of |dtype|, is close enough to |value|. NaN matches only NaN. Beyond
// the largest finite number, the largest number and infinity both match, by the same bound.
bool element_matches(const Tolerance& tolerance, keel_dtype dtype, double got, double value,
                     double magnitude);
// Normalised mean-square error over the elements that are finite on both sides; 0 if the reference
// is all zero. Ignores errors up to |absolute| (Tolerance::absolute).
double normalised_error(std::span<const double> got, std::span<const double> values,
                        double absolute);

}  // namespace keel::ops

#endif  // KEEL_OPS_TESTING_REFERENCE_H_
