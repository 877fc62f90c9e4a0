// SPDX-License-Identifier: Apache-2.0
// How far two tensors of one shape lie from each other.
#ifndef KEEL_TENSORFILE_DIFFERENCE_H_
#define KEEL_TENSORFILE_DIFFERENCE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensorfile/safetensors.h"

namespace keel::tensorfile {

// An element in which both tensors differ.
struct Place {
  std::vector<int64_t> index;
  long double a = 0, b = 0;  // as their dtypes have them: 64-bit integers fit no double
};

// NaN and infinities count apart: all figures but |unlike| are of the elements that are finite in
// both tensors.
struct Difference {
  bool equal_bits = false;  // all figures are zero then, and the cosine 1
  double largest_absolute = 0;
  std::optional<Place> largest_absolute_at;
  double largest_relative = 0;  // |a - b| / max(|a|, |b|)
  std::optional<Place> largest_relative_at;
  double relative_norm = 0;  // ||a - b|| / ||a||; infinite where a is zero and b is not
  double cosine = 1;         // of the angle between both; 0 where one is zero
  // Values of the dtype from one to the other, where both have one float dtype.
  std::optional<uint64_t> largest_ulps;
  // Elements that are NaN, or an infinity, in one and something else in the other.
  uint64_t unlike = 0;
  std::optional<Place> first_unlike;
};

// Reads pieces of a megabyte or so, however large the tensors are. They are of these files and have
// one shape; their dtypes may differ. Nothing where their bytes differ and Keel does not decode the
// dtype of one. Throws FileError where one cannot be read.
std::optional<Difference> difference(const SafetensorsFile& a, const SafetensorsFile::Entry& in_a,
                                     const SafetensorsFile& b, const SafetensorsFile::Entry& in_b);

}  // namespace keel::tensorfile

#endif  // KEEL_TENSORFILE_DIFFERENCE_H_
