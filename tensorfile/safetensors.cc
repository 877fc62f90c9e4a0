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
#include <unordered_set>
#include <utility>

#include "base/strict_json.h"
#include "tensorfile/dtypes.h"
#include "tensorfile/replacement.h"

namespace keel::tensorfile {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "data go as they lie in memory");

constexpr uint64_t kLengthBytes = 8;
// A header of 10^5 tensors has about 10 MB; a larger claim is an error or an attack.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr int kDeepest = 3;  // an object, a tensor, its shape
constexpr const char* kMetadataKey = "__metadata__";

std::string reason_of(int error) {
  return std::strerror(error);
}

// nullopt for a size that is no whole number of bytes, or beyond 64 bits.
std::optional<uint64_t> bytes_of(const std::string& dtype, std::span<const int64_t> shape) {
  uint64_t bits = bits_of(dtype);
  for (int64_t size : shape) {
    if (__builtin_mul_overflow(bits, static_cast<uint64_t>(size), &bits)) return std::nullopt;
  }
  if (bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

// ---- writing

// A JSON string; bytes that are not UTF-8 are replaced.
std::string quoted(const std::string& text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

// Builds the text of an object, member by member: ordered_json searches all earlier keys for each
// new key, which took minutes for 100,000 tensors.
class ObjectText {
 public:
  // False if |key|, as written, exists already.
  bool add(const std::string& key, const std::string& value) {
    const std::string name = quoted(key);
    if (!keys_.insert(name).second) return false;
    text_ += (text_.empty() ? "{" : ",") + name + ":" + value;
    return true;
  }
  std::string finish() && { return (text_.empty() ? "{" : std::move(text_)) + "}"; }

 private:
  std::string text_;
  std::unordered_set<std::string> keys_;
};

std::string entry_text(const TensorSource& tensor, uint64_t offset) {
  return "{\"dtype\":" + quoted(tensor.dtype) + ",\"shape\":" + shape_text(tensor.shape) +
         ",\"data_offsets\":[" + std::to_string(offset) + "," +
         std::to_string(offset + tensor.data.size()) + "]}";
}

// The header, padded with spaces, which JSON ignores, so that the data begin at a multiple of 8
// bytes.
std::string header_text(const fs::path& path, std::span<const TensorSource> tensors,
                        const Metadata& metadata) {
  ObjectText header;
  if (!metadata.empty()) {
    ObjectText values;
    for (const auto& [key, value] : metadata) {
      if (!values.add(key, quoted(value))) {
        throw FileError(path, "metadata " + key + " are given twice");
      }
    }
    header.add(kMetadataKey, std::move(values).finish());
  }
  uint64_t offset = 0;
  for (const TensorSource& tensor : tensors) {
    const std::optional<uint64_t> bytes = bytes_of(tensor.dtype, tensor.shape);
    if (bits_of(tensor.dtype) == 0 || bytes != tensor.data.size()) {
      throw FileError(path, "tensor " + tensor.name + ": " + std::to_string(tensor.data.size()) +
                                " bytes are not those of " + tensor.dtype +
                                shape_text(tensor.shape));
    }
    if (tensor.name == kMetadataKey) {
      throw FileError(path, "tensor " + tensor.name + ": that is the key of the metadata");
    }
    if (!header.add(tensor.name, entry_text(tensor, offset))) {
      throw FileError(path, "tensor " + tensor.name + " is given twice");
    }
    offset += tensor.data.size();
  }
  std::string text = std::move(header).finish();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

// ---- reading

bool is_size(const json& value) {
  return value.is_number_unsigned() && value.get<uint64_t>() <= INT64_MAX;
}

// The member |key| of an object; null if it is missing.
const json* member(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

// Reads |entry| into |tensor|; returns why |entry| describes no tensor, or empty text. |data_size|:
// bytes behind the header.
std::string describe(const json& entry, uint64_t data_size, SafetensorsFile::Tensor* tensor) {
  const json* const dtype = entry.is_object() ? member(entry, "dtype") : nullptr;
  if (dtype == nullptr || !dtype->is_string()) return "it has no dtype";
  tensor->dtype = dtype->get<std::string>();
  const json* const shape = member(entry, "shape");
  if (shape == nullptr || !shape->is_array()) return "it has no shape";
  tensor->shape.reserve(shape->size());
  for (const json& size : *shape) {
    if (!is_size(size)) return "its shape is not of whole numbers";
    tensor->shape.push_back(size.get<int64_t>());
  }
  const json* const offsets = member(entry, "data_offsets");
  if (offsets == nullptr || !offsets->is_array() || offsets->size() != 2 ||
      !is_size((*offsets)[0]) || !is_size((*offsets)[1])) {
    return "it has no data_offsets";
  }
  const auto begin = (*offsets)[0].get<uint64_t>();
  const auto end = (*offsets)[1].get<uint64_t>();
  if (begin > end) return "it ends before it begins";
  if (end > data_size) {
    return "it ends at byte " + std::to_string(end) + " of the data, of which there are " +
           std::to_string(data_size) + ": the file is cut short, or its header lies";
  }
  if (bits_of(tensor->dtype) != 0 && bytes_of(tensor->dtype, tensor->shape) != end - begin) {
    return "its " + std::to_string(end - begin) + " bytes are not those of " + tensor->dtype +
           shape_text(tensor->shape);
  }
  tensor->begin = begin;
  tensor->size = end - begin;
  return {};
}

// Returns why the metadata |entries| are wrong, or empty text. Some writers use null for no
// metadata.
std::string read_metadata(const json& entries, Metadata* out_metadata) {
  if (entries.is_null()) return {};
  if (!entries.is_object()) return "its metadata are not a JSON object";
  for (const auto& [key, value] : entries.get_ref<const json::object_t&>()) {
    if (!value.is_string()) return "metadata " + key + ": is not a string";
    out_metadata->emplace(key, value.get<std::string>());
  }
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

  const uint64_t data = kLengthBytes + length;
  std::string reason;
  bool has_metadata = false;
  const auto take = [&](const std::string& name, const json& entry) {
    if (name == kMetadataKey) {
      if (std::exchange(has_metadata, true)) return JsonMember::kTwice;
      reason = read_metadata(entry, &metadata_);
      return reason.empty() ? JsonMember::kTaken : JsonMember::kEnd;
    }
    Tensor tensor;
    reason = describe(entry, size_ - data, &tensor);
    if (!reason.empty()) {
      reason = "tensor " + name + ": " + reason;
      return JsonMember::kEnd;
    }
    tensor.begin += data;
    const size_t before = tensors_.size();
    tensors_.emplace_hint(tensors_.end(), name, std::move(tensor));  // many files are sorted
    return tensors_.size() == before ? JsonMember::kTwice : JsonMember::kTaken;
  };
  std::string error;
  if (!parse_json_members(text, take, &error, kDeepest)) {
    refuse(error.empty() ? reason : "its header: " + error);
  }
  if (text.front() != '{') refuse("its header begins with a blank, not with '{'");
  check_layout(data);
}

// Refuses tensors that do not fill the file from |data| to its end.
void SafetensorsFile::check_layout(uint64_t data) const {
  struct Part {
    uint64_t begin, size;
    const std::string* name;
  };
  std::vector<Part> order;  // by beginning; at one beginning, empty tensors first
  order.reserve(tensors_.size());
  for (const auto& [name, tensor] : tensors_) order.push_back({tensor.begin, tensor.size, &name});
  std::sort(order.begin(), order.end(), [](const Part& a, const Part& b) {
    return std::pair(a.begin, a.size) < std::pair(b.begin, b.size);
  });
  uint64_t end = data;
  for (const Part& part : order) {
    if (part.begin != end) {
      refuse("tensor " + *part.name + ": " +
             (part.begin < end ? "overlaps another" : "a gap is before it"));
    }
    end = part.begin + part.size;
  }
  if (end != size_) {
    refuse("has " + std::to_string(size_ - end) + " bytes behind its last tensor");
  }
}

std::vector<float> SafetensorsFile::read_floats(const std::string& name,
                                                std::span<const int64_t> shape) const {
  const Tensor& tensor = require(name).second;
  if (!std::equal(shape.begin(), shape.end(), tensor.shape.begin(), tensor.shape.end())) {
    refuse("tensor " + name + ": its shape is " + shape_text(tensor.shape) + ", the model's " +
           shape_text(shape));
  }
  if (tensor.dtype == "F32") {
    std::vector<float> values(tensor.size / sizeof(float));
    read_at(tensor.begin, std::as_writable_bytes(std::span(values)), "tensor ", name);
    return values;
  }
  if (tensor.dtype != "BF16" && tensor.dtype != "F16") {
    refuse("tensor " + name + ": its dtype is " + tensor.dtype + ", not F32, BF16 or F16");
  }
  std::vector<uint16_t> codes(tensor.size / sizeof(uint16_t));
  read_at(tensor.begin, std::as_writable_bytes(std::span(codes)), "tensor ", name);
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
  read(require(name), offset, bytes);
}

void SafetensorsFile::read(const Entry& tensor, uint64_t offset, std::span<std::byte> bytes) const {
  const auto& [name, place] = tensor;
  if (offset > place.size || bytes.size() > place.size - offset) {
    refuse("tensor " + name + ": has " + std::to_string(place.size) + " bytes, fewer than asked");
  }
  read_at(place.begin + offset, bytes, "tensor ", name);
}

const std::string& SafetensorsFile::metadata(const std::string& key) const {
  const auto found = metadata_.find(key);
  if (found == metadata_.end()) refuse("its metadata have no " + key);
  return found->second;
}

const SafetensorsFile::Entry* SafetensorsFile::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &*found;
}

const SafetensorsFile::Entry& SafetensorsFile::require(const std::string& name) const {
  const Entry* const found = find(name);
  if (found == nullptr) refuse("tensor " + name + ": is not in it");
  return *found;
}

void SafetensorsFile::read_at(uint64_t begin, std::span<std::byte> bytes, const char* what,
                              const std::string& name) const {
  while (!bytes.empty()) {
    const ssize_t count = pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(begin));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) refuse(what + name + ": cannot be read: " + reason_of(errno));
    if (count == 0) refuse(what + name + ": the file became shorter meanwhile");
    begin += static_cast<uint64_t>(count);
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

void SafetensorsFile::refuse(const std::string& reason) const {
  throw FileError(path_, reason);
}

}  // namespace keel::tensorfile
