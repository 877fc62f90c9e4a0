// SPDX-License-Identifier: Apache-2.0
// Files of named tensors: eight bytes of the header's length, little-endian, a header in JSON, then
// the data of all tensors, back to back.
#ifndef KEEL_TENSORFILE_SAFETENSORS_H_
#define KEEL_TENSORFILE_SAFETENSORS_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tensorfile/file_error.h"

namespace keel::tensorfile {

// A tensor to write. Borrows |data|.
struct TensorSource {
  std::string name;
  std::string dtype;  // "F32"
  std::vector<int64_t> shape;
  std::span<const std::byte> data;
};

// "[2,3]"
std::string shape_text(std::span<const int64_t> shape);

using Metadata = std::map<std::string, std::string>;

// Replaces |path| as a whole: writes a temporary file beside |path|, flushes the file to the disk
// and renames the file. After any interruption, a full disk or a kill, |path| is the old file or
// the new one. Throws FileError and then leaves the old file. A killed process leaves
// PATH.partial.PID; the next writer of |path| removes this file.
void write_safetensors(const std::filesystem::path& path, std::span<const TensorSource> tensors,
                       const Metadata& metadata);

// A file with a header checked as strictly as by the format's own reader: no duplicate keys, only
// blanks behind the JSON, tensors that fill the file to its end without gap or overlap, and for
// each tensor as many bytes as its shape needs; for a dtype unknown to bits_of(), as many as the
// offsets say. Immutable; threads may read concurrently, since reading moves no shared file
// position.
class SafetensorsFile {
 public:
  struct Tensor {
    std::string dtype;
    std::vector<int64_t> shape;
    uint64_t begin = 0;  // from the beginning of the file
    uint64_t size = 0;   // bytes
  };

  using Entry = std::map<std::string, Tensor>::value_type;  // a name and its tensor

  // Throws FileError.
  explicit SafetensorsFile(std::filesystem::path path);
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;
  ~SafetensorsFile();

  const std::filesystem::path& path() const { return path_; }
  const Metadata& metadata() const { return metadata_; }
  const std::map<std::string, Tensor>& tensors() const { return tensors_; }
  bool has(const std::string& name) const { return tensors_.count(name) != 0; }
  // Null if the tensor is not in the file.
  const Entry* find(const std::string& name) const;

  // The tensor |name| as float32, from F32, BF16 or F16. Throws FileError, naming the tensor, if
  // the tensor is missing, has another shape, or cannot be read.
  std::vector<float> read_floats(const std::string& name, std::span<const int64_t> shape) const;
  // Reads as many bytes of the tensor |name| as |bytes| has, from the tensor's byte |offset| on:
  // for tensors larger than memory. Throws FileError for bytes beyond the tensor and on read
  // failures.
  void read(const std::string& name, uint64_t offset, std::span<std::byte> bytes) const;
  // read() of a |tensor| of this file, without a look-up by name.
  void read(const Entry& tensor, uint64_t offset, std::span<std::byte> bytes) const;
  // Throws FileError where |key| is missing.
  const std::string& metadata(const std::string& key) const;

 private:
  void read_header();
  void check_layout(uint64_t data) const;
  const Entry& require(const std::string& name) const;
  // |what| and |name| go into the error.
  void read_at(uint64_t begin, std::span<std::byte> bytes, const char* what,
               const std::string& name = {}) const;
  [[noreturn]] void refuse(const std::string& reason) const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
  Metadata metadata_;
  std::map<std::string, Tensor> tensors_;
};

}  // namespace keel::tensorfile

#endif  // KEEL_TENSORFILE_SAFETENSORS_H_
