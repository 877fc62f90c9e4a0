// SPDX-License-Identifier: Apache-2.0
// Distance between two tensors of equal shape.
#ifndef KEEL_TENSORFILE_DIFFERENCE_H_
#define KEEL_TENSORFILE_DIFFERENCE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensorfile/safetensors.h"

namespace keel::tensorfile {

// A differing element of the tensors.
struct Place {
  std::vector<int64_t> index;
  long double a = 0, b = 0;  // wide enough for 64-bit integers; double is not
};

// NaN and infinities count apart: all figures except |unlike| cover only elements finite in both
// tensors.
struct Difference {
  bool equal_bits = false;  // all figures are then zero, and the cosine 1
  double largest_absolute = 0;
  std::optional<Place> largest_absolute_at;
  double largest_relative = 0;  // |a - b| / max(|a|, |b|)
  std::optional<Place> largest_relative_at;
  double relative_norm = 0;  // ||a - b|| / ||a||; infinite where a is zero and b is not
  double cosine = 1;         // of the angle between the tensors; 0 where a tensor is zero
  // Largest number of values of the dtype between two elements, where both tensors have the same
  // float dtype.
  std::optional<uint64_t> largest_ulps;
  // Number of elements that are NaN, or an infinity, in a tensor and differ in the second.
  uint64_t unlike = 0;
  std::optional<Place> first_unlike;
};

// Reads pieces of about a megabyte, however large the tensors are. The tensors belong to these
// files and have equal shapes; the dtypes may differ. nullopt where the bytes differ and Keel does
// not decode the dtype of one tensor. Throws FileError for an unreadable tensor.
std::optional<Difference> difference(const SafetensorsFile& a, const SafetensorsFile::Entry& in_a,
                                     const SafetensorsFile& b, const SafetensorsFile::Entry& in_b);

}  // namespace keel::tensorfile

#endif  // KEEL_TENSORFILE_DIFFERENCE_H_
