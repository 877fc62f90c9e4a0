// SPDX-License-Identifier: Apache-2.0
#include "tensorfile/comparison.h"

#include <algorithm>
#include <future>
#include <limits>
#include <memory>
#include <set>
#include <system_error>
#include <utility>

#include "tensorfile/dtypes.h"
#include "tensorfile/order.h"

namespace keel::tensorfile {
namespace {

namespace fs = std::filesystem;
using Visit = std::function<void(const TensorComparison&)>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Tolerance for a tensor in a file whose floats were calculated with |precision|; null: as stored.
double tolerance_of(const std::string& dtype, const Dtype* precision,
                    const ComparisonOptions& options) {
  const Dtype* const found = find_dtype(dtype);
  if (found == nullptr) return 0;  // only equal bits are ever judged
  if (found->kind != Dtype::Kind::kFloat) return found->tolerance;
  if (options.tolerance) return *options.tolerance;
  return precision == nullptr ? found->tolerance : std::max(found->tolerance, precision->tolerance);
}

const Dtype* precision_of(const SafetensorsFile& file) {
  const auto found = file.metadata().find(kPrecisionKey);
  return found == file.metadata().end() ? nullptr : find_dtype(found->second);
}

Outcome judge(const Difference& difference, double tolerance) {
  if (difference.equal_bits) return Outcome::kEqual;
  const bool is_close = difference.unlike == 0 && difference.relative_norm <= tolerance;
  return is_close ? Outcome::kClose : Outcome::kApart;
}

using Files =
    std::pair<std::unique_ptr<const SafetensorsFile>, std::unique_ptr<const SafetensorsFile>>;

// Reads both headers concurrently: for many small tensors, headers take half of the time.
Files open_files(const fs::path& a, const fs::path& b) {
  auto second = std::async([&b] { return std::make_unique<const SafetensorsFile>(b); });
  auto first = std::make_unique<const SafetensorsFile>(a);
  return {std::move(first), second.get()};
}

class FilePair {
 public:
  FilePair(Files files, const ComparisonOptions& options)
      : options_(options),
        files_(std::move(files)),
        a_(*files_.first),
        b_(*files_.second),
        precision_a_(precision_of(a_)),
        precision_b_(precision_of(b_)) {
    for (const SafetensorsFile* file : {&a_, &b_}) {
      for (std::string& name : metadata_lines(*file, kRoundingKey)) {
        rounding_.insert(std::move(name));
      }
    }
  }

  void compare(const std::string& file, const Visit& visit) const {
    const std::vector<std::string> names = ordered_names(a_, b_);
    if (names.empty()) throw FileError(a_.path(), "has no tensors, nor has " + b_.path().string());
    const bool is_one_model = std::any_of(
        names.begin(), names.end(), [&](const auto& name) { return a_.has(name) && b_.has(name); });
    if (!is_one_model) {
      throw FileError(a_.path(), "has no tensor in common with " + b_.path().string() +
                                     ": they are of different models, or named in other ways");
    }
    for (const std::string& name : names) {
      TensorComparison comparison = of_tensor(name);
      comparison.file = file;
      visit(comparison);
    }
  }

 private:
  TensorComparison of_tensor(const std::string& name) const {
    const SafetensorsFile::Entry* const in_a = a_.find(name);
    const SafetensorsFile::Entry* const in_b = b_.find(name);
    TensorComparison comparison;
    comparison.name = name;
    comparison.layer = layer_of(name);
    if (in_a != nullptr) {
      comparison.dtype_a = in_a->second.dtype;
      comparison.shape_a = in_a->second.shape;
    }
    if (in_b != nullptr) {
      comparison.dtype_b = in_b->second.dtype;
      comparison.shape_b = in_b->second.shape;
    }
    if (in_a == nullptr || in_b == nullptr) {
      comparison.outcome = in_a != nullptr ? Outcome::kOnlyInA : Outcome::kOnlyInB;
      return comparison;
    }
    if (comparison.shape_a != comparison.shape_b) {
      comparison.outcome = Outcome::kShapes;
      return comparison;
    }
    const std::optional<Difference> found = difference(a_, *in_a, b_, *in_b);
    if (!found) {
      comparison.outcome = Outcome::kLeftOut;
      return comparison;
    }
    comparison.tolerance = rounding_.count(name) != 0
                               ? kInfinity
                               : std::max(tolerance_of(comparison.dtype_a, precision_a_, options_),
                                          tolerance_of(comparison.dtype_b, precision_b_, options_));
    comparison.difference = *found;
    comparison.outcome = judge(comparison.difference, comparison.tolerance);
    return comparison;
  }

  const ComparisonOptions& options_;
  const Files files_;
  const SafetensorsFile& a_;
  const SafetensorsFile& b_;
  const Dtype *precision_a_, *precision_b_;
  std::set<std::string> rounding_;
};

// The names of the tensor files in |folder|.
std::set<std::string> files_of(const fs::path& folder) {
  std::set<std::string> names;
  std::error_code error;
  for (fs::directory_iterator each(folder, error), end; !error && each != end;
       each.increment(error)) {
    if (each->path().extension() == ".safetensors") names.insert(each->path().filename().string());
  }
  if (error) throw FileError(folder, "cannot be read: " + error.message());
  if (names.empty()) throw FileError(folder, "has no file whose name ends in .safetensors");
  return names;
}

void compare_folders(const fs::path& a, const fs::path& b, const ComparisonOptions& options,
                     const Visit& visit) {
  const std::set<std::string> names_a = files_of(a);
  const std::set<std::string> names_b = files_of(b);
  std::set<std::string, decltype(&natural_less)> names(&natural_less);
  names.insert(names_a.begin(), names_a.end());
  names.insert(names_b.begin(), names_b.end());
  if (names.size() == names_a.size() + names_b.size()) {
    throw FileError(a, "has no file of a name that is in " + b.string() + " too");
  }
  for (const std::string& name : names) {
    if (names_a.count(name) != 0 && names_b.count(name) != 0) {
      FilePair(open_files(a / name, b / name), options).compare(name, visit);
      continue;
    }
    TensorComparison comparison;
    comparison.file = name;
    comparison.outcome = names_a.count(name) != 0 ? Outcome::kOnlyInA : Outcome::kOnlyInB;
    visit(comparison);
  }
}

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);  // for a missing path, opening its file fails later
}

}  // namespace

double TensorComparison::excess() const {
  if (outcome == Outcome::kEqual) return 0;
  if (outcome != Outcome::kClose && outcome != Outcome::kApart) return kInfinity;
  if (difference.unlike > 0) return kInfinity;
  if (difference.relative_norm == 0) return 0;  // zeroes of other signs, NaN of other bits
  return difference.relative_norm / tolerance;
}

void compare(const fs::path& a, const fs::path& b, const ComparisonOptions& options,
             const Visit& visit) {
  if (is_folder(a) != is_folder(b)) {
    throw FileError(is_folder(a) ? a : b,
                    "is a folder, " + (is_folder(a) ? b : a).string() + " is none");
  }
  if (is_folder(a)) {
    compare_folders(a, b, options, visit);
  } else {
    FilePair(open_files(a, b), options).compare(/*file=*/{}, visit);
  }
}

}  // namespace keel::tensorfile
