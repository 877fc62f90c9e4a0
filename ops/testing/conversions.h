// SPDX-License-Identifier: Apache-2.0
// Conversions between dtypes as cast and elementwise specify them, and the values that are hard to
// convert.
#ifndef KEEL_OPS_TESTING_CONVERSIONS_H_
#define KEEL_OPS_TESTING_CONVERSIONS_H_

#include <keel/abi.h>

#include <cstdint>
#include <vector>

namespace keel::ops {

// The elements of a host tensor of integers in row-major order: exact, where float64 rounds int64.
// uint64 wraps.
std::vector<int64_t> read_integers(const keel_tensor& tensor);

// |value| modulo 2^bits of the integer type |dtype|.
double wrap_to_dtype(int64_t value, keel_dtype dtype);
// |value| truncated, and wrapped to the integer type |dtype|. What is unspecified is saturated
// first, to int32 or, for int64, to int64; NaN gives 0.
double truncate_to_dtype(double value, keel_dtype dtype);
// |value| rounded to |dtype| once, where round_to_dtype rounds to float32 first.
double round_once_to_dtype(double value, keel_dtype dtype);
// |value| as a number of the float type |computed|, float32 or float64.
double round_integer(int64_t value, keel_dtype computed);

// Stores a value of |from| whose conversion to |to| is specified at |element| of |data|; |index|
// chooses one. Among them are the ends of each type, ties of each rounding, 2^24 + 1 and 2^53 + 1,
// negative numbers, and of floats NaN and infinities.
void store_conversion(void* data, keel_dtype from, keel_dtype to, int64_t element, uint64_t index);

}  // namespace keel::ops

#endif  // KEEL_OPS_TESTING_CONVERSIONS_H_
