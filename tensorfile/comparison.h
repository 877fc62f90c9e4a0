// SPDX-License-Identifier: Apache-2.0
// Finds where two runs diverge: compares the tensors of two files, or of two folders with a file a
// step, tensor by tensor.
#ifndef KEEL_TENSORFILE_COMPARISON_H_
#define KEEL_TENSORFILE_COMPARISON_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tensorfile/difference.h"

namespace keel::tensorfile {

enum class Outcome {
  kEqual,    // to the bit
  kClose,    // the relative norm of the difference is within the tolerance
  kApart,    // the norm is beyond the tolerance, or NaN or an infinity is only in a or only in b
  kShapes,   // the shapes differ
  kOnlyInA,  // a tensor, or a whole file of a folder
  kOnlyInB,
  // The bytes differ, and Keel does not decode the dtype of one tensor: how far the tensors differ,
  // and whether the runs diverge, is unknown.
  kLeftOut,
};

// Whether training continued from here diverges.
inline bool parts(Outcome outcome) {
  return outcome != Outcome::kEqual && outcome != Outcome::kClose && outcome != Outcome::kLeftOut;
}

struct TensorComparison {
  std::string file;   // file name in both folders; empty where two files are compared
  std::string name;   // empty for a file absent from a folder
  std::string layer;  // see layer_of
  Outcome outcome = Outcome::kEqual;
  std::string dtype_a, dtype_b;  // empty where the tensor is missing
  std::vector<int64_t> shape_a, shape_b;
  // For the relative norm: the widest of both dtypes and both files' precision. Infinite where a
  // file's metadata declare the tensor to be pure rounding.
  double tolerance = 0;
  Difference difference;  // where the outcome is kEqual, kClose or kApart

  // Distance as a multiple of the tolerance; infinite where no number expresses the distance.
  double excess() const;
};

struct ComparisonOptions {
  std::optional<double> tolerance;  // of all float dtypes; nullopt: each dtype's own
};

// Metadata key of a file's list of tensors that are zero except for rounding, a line each.
inline constexpr const char* kRoundingKey = "rounding";

// Metadata key of the dtype in which a file's floats were calculated, where narrower than the
// stored dtype: the floats get the narrower dtype's tolerance.
inline constexpr const char* kPrecisionKey = "precision";

// Calls |visit| with every tensor of |a| and |b|, two files or two folders, in the order of their
// creation: files of folders by the numbers in file names, tensors as ordered_names sorts them.
// Memory does not grow with the tensors. Throws FileError for an unreadable file, and for inputs
// that cannot be compared: a folder and a file, or no name in common.
void compare(const std::filesystem::path& a, const std::filesystem::path& b,
             const ComparisonOptions& options,
             const std::function<void(const TensorComparison&)>& visit);

}  // namespace keel::tensorfile

#endif  // KEEL_TENSORFILE_COMPARISON_H_
