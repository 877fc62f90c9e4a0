// SPDX-License-Identifier: Apache-2.0
// Tensor files for tests, in a folder that is removed with the object.
#ifndef KEEL_TENSORFILE_TESTING_TENSOR_FOLDER_H_
#define KEEL_TENSORFILE_TESTING_TENSOR_FOLDER_H_

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tensorfile/safetensors.h"

namespace keel::tensorfile::testing {

class TensorFolder {
 public:
  TensorFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tensorfile.XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  TensorFolder(const TensorFolder&) = delete;
  TensorFolder& operator=(const TensorFolder&) = delete;
  ~TensorFolder() { std::filesystem::remove_all(path_); }

  const std::filesystem::path& path() const { return path_; }

  // Adds a tensor to the next file to be written; of rank 1 if no shape is given.
  template <typename Stored>
  void add_as(const std::string& dtype, const std::string& name, const std::vector<Stored>& values,
              std::vector<int64_t> shape = {-1}) {
    if (shape == std::vector<int64_t>{-1}) shape = {static_cast<int64_t>(values.size())};
    std::vector<std::byte> bytes(values.size() * sizeof(Stored));
    if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    data_.push_back(std::move(bytes));
    tensors_.push_back({name, dtype, std::move(shape), {}});
  }
  void add(const std::string& name, const std::vector<float>& values,
           std::vector<int64_t> shape = {-1}) {
    add_as("F32", name, values, std::move(shape));
  }
  // Writes the file and returns its path; |name| may contain folders.
  std::filesystem::path write(const std::string& name, const Metadata& metadata = {}) {
    const std::filesystem::path path = path_ / name;
    std::filesystem::create_directories(path.parent_path());
    for (size_t i = 0; i < tensors_.size(); ++i) tensors_[i].data = data_[i];
    write_safetensors(path, tensors_, metadata);
    tensors_.clear();
    data_.clear();
    return path;
  }

 private:
  std::filesystem::path path_;
  std::vector<TensorSource> tensors_;
  std::vector<std::vector<std::byte>> data_;
};

}  // namespace keel::tensorfile::testing

#endif  // KEEL_TENSORFILE_TESTING_TENSOR_FOLDER_H_
