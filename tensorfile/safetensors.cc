// SPDX-License-Identifier: Apache-2.0
#include "tensorfile/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <keel/float_types.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "tensorfile/dtypes.h"
#include "tensorfile/replacement.h"

namespace keel::tensorfile {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

static_assert(std::endian::native == std::endian::little, "data go as they lie in memory");

constexpr uint64_t kLengthBytes = 8;
// A header of 10^5 tensors has some 10 MB; one that claims more is a lie or an attack.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr const char* kMetadataKey = "__metadata__";

std::string reason_of(int error) {
  return std::strerror(error);
}

// 0: unknown.
uint64_t element_size(const std::string& dtype) {
  const Dtype* const found = find_dtype(dtype);
  return found == nullptr ? 0 : found->size;
}

// Nothing where the product is beyond 64 bits.
std::optional<uint64_t> bytes_of(const std::string& dtype, std::span<const int64_t> shape) {
  uint64_t bytes = element_size(dtype);
  for (int64_t size : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes)) return std::nullopt;
  }
  return bytes;
}

// ---- writing

// Padded with spaces, which JSON ignores, so that the data begin at a multiple of 8 bytes.
std::string header_text(const fs::path& path, std::span<const TensorSource> tensors,
                        const Metadata& metadata) {
  ordered_json header = ordered_json::object();
  if (!metadata.empty()) header[kMetadataKey] = metadata;
  uint64_t offset = 0;
  for (const TensorSource& tensor : tensors) {
    const std::optional<uint64_t> bytes = bytes_of(tensor.dtype, tensor.shape);
    if (element_size(tensor.dtype) == 0 || bytes != tensor.data.size()) {
      throw FileError(path, "tensor " + tensor.name + ": " + std::to_string(tensor.data.size()) +
                                " bytes are not those of " + tensor.dtype +
                                shape_text(tensor.shape));
    }
    if (header.contains(tensor.name)) {
      throw FileError(path, "tensor " + tensor.name + " is given twice");
    }
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + tensor.data.size()}}};
    offset += tensor.data.size();
  }
  std::string text = header.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

// ---- reading

// Before it is parsed, as each level takes memory: a header nests an object, a tensor, a shape.
bool nests_too_deep(const std::string& text) {
  constexpr int kDeepest = 3;
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size() && depth <= kDeepest; ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;  // whatever is escaped
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return depth > kDeepest;
}

// A key that stands twice would have two readers see two files.
json parse_header(const std::string& text, std::string* twice) {
  std::set<std::string> seen;
  const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::key && depth == 1 &&
        !seen.insert(parsed.get<std::string>()).second) {
      *twice = parsed.get<std::string>();
    }
    return true;
  };
  return json::parse(text, watch, /*allow_exceptions=*/false);
}

bool is_size(const json& value) {
  return value.is_number_unsigned() && value.get<uint64_t>() <= INT64_MAX;
}

// Why |entry| describes no tensor; empty if it does. |data_size|: bytes behind the header.
std::string describe(const json& entry, uint64_t data_size, SafetensorsFile::Tensor* tensor) {
  if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string()) {
    return "it has no dtype";
  }
  tensor->dtype = entry["dtype"].get<std::string>();
  if (element_size(tensor->dtype) == 0) return "its dtype " + tensor->dtype + " is unknown";
  if (!entry.contains("shape") || !entry["shape"].is_array()) return "it has no shape";
  for (const json& size : entry["shape"]) {
    if (!is_size(size)) return "its shape is not of whole numbers";
    tensor->shape.push_back(size.get<int64_t>());
  }
  if (!entry.contains("data_offsets") || !entry["data_offsets"].is_array() ||
      entry["data_offsets"].size() != 2 || !is_size(entry["data_offsets"][0]) ||
      !is_size(entry["data_offsets"][1])) {
    return "it has no data_offsets";
  }
  const auto begin = entry["data_offsets"][0].get<uint64_t>();
  const auto end = entry["data_offsets"][1].get<uint64_t>();
  if (begin > end) return "it ends before it begins";
  if (end > data_size) {
    return "it ends at byte " + std::to_string(end) + " of the data, of which there are " +
           std::to_string(data_size) + ": the file is cut short, or its header lies";
  }
  const std::optional<uint64_t> bytes = bytes_of(tensor->dtype, tensor->shape);
  if (bytes != end - begin) {
    return "its " + std::to_string(end - begin) + " bytes are not those of " + tensor->dtype +
           shape_text(tensor->shape);
  }
  tensor->begin = begin;
  tensor->size = end - begin;
  return {};
}

}  // namespace

std::string shape_text(std::span<const int64_t> shape) {
  std::string text = "[";
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    text += (axis == 0 ? "" : ",") + std::to_string(shape[axis]);
  }
  return text + "]";
}

void write_safetensors(const fs::path& path, std::span<const TensorSource> tensors,
                       const Metadata& metadata) {
  const std::string header = header_text(path, tensors, metadata);
  std::array<std::byte, kLengthBytes> length;
  for (size_t i = 0; i < length.size(); ++i) {
    length[i] = static_cast<std::byte>(static_cast<uint64_t>(header.size()) >> (8 * i));
  }
  Replacement file(path);
  file.write(length);
  file.write(std::as_bytes(std::span(header)));
  for (const TensorSource& tensor : tensors) file.write(tensor.data);
  file.finish();
}

SafetensorsFile::SafetensorsFile(fs::path path) : path_(std::move(path)) {
  descriptor_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) refuse("cannot be opened: " + reason_of(errno));
  try {
    struct stat status = {};
    if (fstat(descriptor_, &status) != 0) refuse("cannot be read: " + reason_of(errno));
    if (!S_ISREG(status.st_mode)) refuse("is not a regular file");
    size_ = static_cast<uint64_t>(status.st_size);
    read_header();
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() {
  close(descriptor_);
}

void SafetensorsFile::read_header() {
  if (size_ < kLengthBytes) {
    refuse("has " + std::to_string(size_) + " bytes, too few for the length of a header");
  }
  std::array<std::byte, kLengthBytes> bytes;
  read_at(0, bytes, "the header's length");
  uint64_t length = 0;
  for (size_t i = 0; i < bytes.size(); ++i) length |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  if (length > kMaxHeaderBytes) {
    refuse("its header claims " + std::to_string(length) + " bytes, more than any has");
  }
  if (length > size_ - kLengthBytes) {
    refuse("its header of " + std::to_string(length) + " bytes is cut short: the file has " +
           std::to_string(size_));
  }
  std::string text(static_cast<size_t>(length), '\0');
  read_at(kLengthBytes, std::as_writable_bytes(std::span(text)), "the header");
  if (nests_too_deep(text)) refuse("its header nests deeper than any does");
  std::string twice;
  const json header = parse_header(text, &twice);
  if (!header.is_object()) refuse("its header is not a JSON object");
  if (!twice.empty()) refuse("tensor " + twice + ": the header has it twice");

  const uint64_t data = kLengthBytes + length;
  std::vector<std::pair<uint64_t, std::string>> order;  // by their beginnings
  for (const auto& [name, entry] : header.items()) {
    if (name == kMetadataKey) {
      if (!entry.is_object()) refuse("its metadata are not a JSON object");
      for (const auto& [key, value] : entry.items()) {
        if (!value.is_string()) refuse("metadata " + key + ": is not a string");
        metadata_[key] = value.get<std::string>();
      }
      continue;
    }
    Tensor tensor;
    const std::string reason = describe(entry, size_ - data, &tensor);
    if (!reason.empty()) refuse("tensor " + name + ": " + reason);
    tensor.begin += data;
    order.emplace_back(tensor.begin, name);
    tensors_.emplace(name, std::move(tensor));
  }
  // Empty tensors before others that begin where they do.
  std::sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    return std::pair(a.first, tensors_.at(a.second).size) <
           std::pair(b.first, tensors_.at(b.second).size);
  });
  uint64_t end = data;
  for (const auto& [begin, name] : order) {
    if (begin != end) {
      refuse("tensor " + name + ": " + (begin < end ? "overlaps another" : "a gap is before it"));
    }
    end = begin + tensors_.at(name).size;
  }
  if (end != size_) {
    refuse("has " + std::to_string(size_ - end) + " bytes behind its last tensor");
  }
}

std::vector<float> SafetensorsFile::read_floats(const std::string& name,
                                                std::span<const int64_t> shape) const {
  const Tensor& tensor = find(name);
  if (!std::equal(shape.begin(), shape.end(), tensor.shape.begin(), tensor.shape.end())) {
    refuse("tensor " + name + ": its shape is " + shape_text(tensor.shape) + ", the model's " +
           shape_text(shape));
  }
  if (tensor.dtype == "F32") {
    std::vector<float> values(tensor.size / sizeof(float));
    read_at(tensor.begin, std::as_writable_bytes(std::span(values)), "tensor " + name);
    return values;
  }
  if (tensor.dtype != "BF16" && tensor.dtype != "F16") {
    refuse("tensor " + name + ": its dtype is " + tensor.dtype + ", not F32, BF16 or F16");
  }
  std::vector<uint16_t> codes(tensor.size / sizeof(uint16_t));
  read_at(tensor.begin, std::as_writable_bytes(std::span(codes)), "tensor " + name);
  std::vector<float> values(codes.size());
  const bool brain = tensor.dtype == "BF16";
  std::transform(codes.begin(), codes.end(), values.begin(), [brain](uint16_t code) {
    return brain ? keel::to_float(static_cast<keel::bfloat16_t>(code))
                 : keel::to_float(static_cast<keel::float16_t>(code));
  });
  return values;
}

void SafetensorsFile::read(const std::string& name, uint64_t offset,
                           std::span<std::byte> bytes) const {
  const Tensor& tensor = find(name);
  if (offset > tensor.size || bytes.size() > tensor.size - offset) {
    refuse("tensor " + name + ": has " + std::to_string(tensor.size) + " bytes, fewer than asked");
  }
  read_at(tensor.begin + offset, bytes, "tensor " + name);
}

const std::string& SafetensorsFile::metadata(const std::string& key) const {
  const auto found = metadata_.find(key);
  if (found == metadata_.end()) refuse("its metadata have no " + key);
  return found->second;
}

const SafetensorsFile::Tensor& SafetensorsFile::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) refuse("tensor " + name + ": is not in it");
  return found->second;
}

void SafetensorsFile::read_at(uint64_t begin, std::span<std::byte> bytes,
                              const std::string& what) const {
  while (!bytes.empty()) {
    const ssize_t count = pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(begin));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) refuse(what + ": cannot be read: " + reason_of(errno));
    if (count == 0) refuse(what + ": the file became shorter meanwhile");
    begin += static_cast<uint64_t>(count);
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

void SafetensorsFile::refuse(const std::string& reason) const {
  throw FileError(path_, reason);
}

}  // namespace keel::tensorfile
