// SPDX-License-Identifier: Apache-2.0
// Where two runs part: tensors of two files, or of two folders with a file a step, one by one.
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
  kApart,    // it is beyond it, or NaN or an infinity is in one alone
  kShapes,   // they have other shapes
  kOnlyInA,  // a tensor, or a whole file of a folder
  kOnlyInB,
  // Their bytes differ, and Keel does not decode the dtype of one: how far apart they are, and
  // whether they part, is not known.
  kLeftOut,
};

// Whether a training that goes on from here is another one.
inline bool parts(Outcome outcome) {
  return outcome != Outcome::kEqual && outcome != Outcome::kClose && outcome != Outcome::kLeftOut;
}

struct TensorComparison {
  std::string file;   // its name in both folders; empty where two files are compared
  std::string name;   // empty for a file that one folder lacks
  std::string layer;  // see layer_of
  Outcome outcome = Outcome::kEqual;
  std::string dtype_a, dtype_b;  // empty where the tensor is missing
  std::vector<int64_t> shape_a, shape_b;
  // Of the relative norm: the widest of both dtypes and both files' precision. Infinite where a
  // file's metadata say that the tensor is nothing but rounding.
  double tolerance = 0;
  Difference difference;  // where the outcome is kEqual, kClose or kApart

  // How many times as far apart as is tolerated; infinite for what no number tells.
  double excess() const;
};

struct ComparisonOptions {
  std::optional<double> tolerance;  // of all float dtypes; none: each its own
};

// The metadata key under which a file lists tensors that are zero but for rounding, a line each.
inline constexpr const char* kRoundingKey = "rounding";

// The metadata key of the dtype in which a file's floats were calculated, where that is narrower
// than the one they are stored in: its tolerance is theirs.
inline constexpr const char* kPrecisionKey = "precision";

// Calls |visit| with every tensor of |a| and |b|, two files or two folders, in the order in which
// they came to be: files of folders by the numbers in their names, tensors as ordered_names has
// them. Memory does not grow with the tensors. Throws FileError where a file cannot be read, or
// where there is nothing to compare: a folder and a file, or no name that both have.
void compare(const std::filesystem::path& a, const std::filesystem::path& b,
             const ComparisonOptions& options,
             const std::function<void(const TensorComparison&)>& visit);

}  // namespace keel::tensorfile

#endif  // KEEL_TENSORFILE_COMPARISON_H_
