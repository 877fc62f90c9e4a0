// SPDX-License-Identifier: Apache-2.0
// Dtypes of tensor files, by name in the header: the dtypes Keel decodes, and the sizes of all
// dtypes of the format.
#ifndef KEEL_TENSORFILE_DTYPES_H_
#define KEEL_TENSORFILE_DTYPES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace keel::tensorfile {

struct Dtype {
  enum class Kind { kFloat, kSigned, kUnsigned };

  std::string_view name;  // "F32"
  Kind kind;
  uint64_t size;  // bytes of an element
  // Largest distance, as a relative norm, at which two calculations of a tensor count as equal:
  // some ten times the effect of rounding once to this dtype. 0: no distance.
  double tolerance;
  uint64_t infinity;  // of a float: without the sign, codes below it are finite
  // Values and differences fit a double, without long double.
  bool fits_double;
};

// Null for a dtype not decoded by Keel.
const Dtype* find_dtype(std::string_view name);

// Bits of an element, also for dtypes of the format absent from find_dtype(): 4 of F4, 64 of C64.
// 0: the format's version of 2025 does not have the dtype.
uint64_t bits_of(std::string_view dtype);

// Decodes as many values of |bytes| as |values| has. A BOOL decodes to its byte.
template <typename Value>  // double or long double
void decode(const Dtype& dtype, std::span<const std::byte> bytes, std::span<Value> values);

// Largest number of values of a float |dtype| between an element of |a| and the same element of
// |b|, counting one of the two; leaves out elements that are not finite in both.
uint64_t largest_ulps(const Dtype& dtype, std::span<const std::byte> a,
                      std::span<const std::byte> b);

}  // namespace keel::tensorfile

#endif  // KEEL_TENSORFILE_DTYPES_H_
