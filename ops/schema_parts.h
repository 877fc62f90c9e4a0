// SPDX-License-Identifier: Apache-2.0
// The tolerances of the table of operators. u = 2^-24 is half the distance of float32 neighbours
// at 1.
#ifndef KEEL_OPS_SCHEMA_PARTS_H_
#define KEEL_OPS_SCHEMA_PARTS_H_

#include <limits>

#include "ops/schema.h"

namespace keel::ops {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Kernels may flush float32 subnormals of each operand: 2^-124 is four times the smallest normal.
inline constexpr double kFlush = 0x1p-124;
// The same behind a factor of up to 2^9, as the rstd of a row of zeroes and an eps of 1e-5, 316, or
// a sum of many. NVIDIA's Vulkan driver flushes.
inline constexpr double kFlushAmplified = 0x1p-115;

// Normalised mean-square errors: the square of the largest relative rounding error, 2^-24, 2^-11
// and 2^-8, since an output may have a single element; computed float32 leaves room for earlier
// operations.
inline constexpr double kErrorExact = 1e-14;
inline constexpr double kErrorFloat32 = 1e-10;
inline constexpr double kErrorFloat16 = 3e-7;
inline constexpr double kErrorBFloat16 = 1.6e-5;

constexpr Tolerance rounded_once(double error) {
  return {kFlush, 0, 0, error};
}
// A few float32 roundings in a row: 4 u.
constexpr Tolerance few_roundings(double error) {
  return {kFlush, 0x1p-23, 0x1p-22, error};
}
// The same of flushed operands that are amplified.
constexpr Tolerance amplified(double error) {
  return {kFlushAmplified, 0x1p-23, 0x1p-22, error};
}
// A sum of products of 16-bit factors, 8 u: matrix units cut what they add instead of rounding it.
// 3001 positive products of float16 were 312 u of their sum too low on an H100, 5.7 u of the
// square root of their number.
constexpr Tolerance matrix_unit(double error) {
  return {kFlush, 0x1p-23, 0x1p-21, error};
}
// exp, log, tanh: 64 u. Vulkan requires 3 + 2|x| units for exp; vendors' fast paths have 20 bits.
constexpr Tolerance transcendental(double error) {
  return {kFlushAmplified, 0x1p-22, 0x1p-18, error};
}
// An optimizer's update: some ten roundings and a square root.
constexpr Tolerance update(double error) {
  return {kFlush, 0x1p-22, 0x1p-20, error};
}
// A sum of any number of terms.
constexpr Tolerance long_sum(double error) {
  return {kFlush, 0x1p-23, 0x1p-20, error};
}

}  // namespace keel::ops

#endif  // KEEL_OPS_SCHEMA_PARTS_H_
