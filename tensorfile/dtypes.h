// SPDX-License-Identifier: Apache-2.0
// The dtypes of tensor files, by their names in the header: those whose values Keel decodes, and
// the sizes of all that the format has.
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
  // How far two calculations of one tensor may lie from each other, as a relative norm, and still
  // be the same: some ten times what rounding to this dtype once makes of it. 0: not at all.
  double tolerance;
  uint64_t infinity;  // of a float: without the sign, its codes are finite below this
  // Values and their differences fit a double: they need no long double.
  bool fits_double;
};

// Null for one whose values Keel does not decode.
const Dtype* find_dtype(std::string_view name);

// Bits of an element, also of the format's dtypes that find_dtype() does not have: 4 of F4, 64 of
// C64. 0: the format does not have it, or a later version than the one of 2025 does.
uint64_t bits_of(std::string_view dtype);

// The values of |bytes|, as many as |values| has. Of BOOL, the byte.
template <typename Value>  // double or long double
void decode(const Dtype& dtype, std::span<const std::byte> bytes, std::span<Value> values);

// The largest number of values of a float |dtype| that lie between an element of |a| and the same
// of |b|, one of both counted; elements that are not finite in both are left out.
uint64_t largest_ulps(const Dtype& dtype, std::span<const std::byte> a,
                      std::span<const std::byte> b);

}  // namespace keel::tensorfile

#endif  // KEEL_TENSORFILE_DTYPES_H_
