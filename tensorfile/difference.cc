// SPDX-License-Identifier: Apache-2.0
#include "tensorfile/difference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "tensorfile/dtypes.h"

namespace keel::tensorfile {
namespace {

using Tensor = SafetensorsFile::Tensor;

constexpr uint64_t kPiece = 1 << 16;       // elements
constexpr uint64_t kPieceBytes = 1 << 19;  // for comparing bytes only

// A tensor, read piece by piece.
class Reader {
 public:
  Reader(const SafetensorsFile& file, const SafetensorsFile::Entry& tensor)
      : file_(file), tensor_(tensor), dtype_(find_dtype(tensor.second.dtype)) {}

  const Tensor& tensor() const { return tensor_.second; }
  // Null for a dtype that Keel does not decode.
  const Dtype* dtype() const { return dtype_; }
  // The spans of read_bytes() and read() are valid until the next call of either.
  std::span<const std::byte> read_bytes(uint64_t first, uint64_t count) {
    // Keeps the last piece: a tensor of one piece is read once, to be compared and then measured.
    if (first != first_ || count != bytes_.size()) {
      bytes_.resize(static_cast<size_t>(count));
      file_.read(tensor_, first, bytes_);
      first_ = first;
    }
    return bytes_;
  }
  std::span<const std::byte> read(uint64_t first, uint64_t count) {
    return read_bytes(first * dtype_->size, count * dtype_->size);
  }

 private:
  const SafetensorsFile& file_;
  const SafetensorsFile::Entry& tensor_;
  const Dtype* const dtype_;
  uint64_t first_ = 0;
  std::vector<std::byte> bytes_;  // from |first_| on
};

std::vector<int64_t> index_of(uint64_t element, const std::vector<int64_t>& shape) {
  std::vector<int64_t> index(shape.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    const auto size = static_cast<uint64_t>(shape[axis]);
    index[axis] = static_cast<int64_t>(element % size);
    element /= size;
  }
  return index;
}

// Stops at the first piece that differs: most tensors differ early or not at all.
bool are_equal_bits(Reader& a, Reader& b) {
  const uint64_t size = a.tensor().size;
  if (a.tensor().dtype != b.tensor().dtype || b.tensor().size != size) return false;
  for (uint64_t first = 0; first < size; first += kPieceBytes) {
    const uint64_t count = std::min(kPieceBytes, size - first);
    const std::span<const std::byte> bytes_a = a.read_bytes(first, count);
    const std::span<const std::byte> bytes_b = b.read_bytes(first, count);
    if (std::memcmp(bytes_a.data(), bytes_b.data(), bytes_a.size()) != 0) return false;
  }
  return true;
}

// For two elements that are not both finite: whether they differ.
template <typename Value>
bool are_unlike(Value a, Value b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) != std::isnan(b);
  return a != b;  // an infinity, and its opposite or a finite value
}

// |Value| is wide enough to distinguish neighbouring values of both dtypes, and for the squares of
// the largest and the smallest values.
template <typename Value>
class Measure {
 public:
  void add(uint64_t first, std::span<const Value> a, std::span<const Value> b) {
    Value square_a = 0, square_b = 0, square_difference = 0, product = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      if (!std::isfinite(a[i]) || !std::isfinite(b[i])) {
        if (are_unlike(a[i], b[i]) && unlike_++ == 0) first_unlike_ = {first + i, a[i], b[i]};
        continue;
      }
      const Value difference = std::abs(a[i] - b[i]);
      square_a += a[i] * a[i];
      square_b += b[i] * b[i];
      product += a[i] * b[i];
      if (difference == 0) continue;
      square_difference += difference * difference;
      const Value relative = difference / std::max(std::abs(a[i]), std::abs(b[i]));
      if (difference > absolute_.size) absolute_ = {first + i, a[i], b[i], difference};
      if (relative > relative_.size) relative_ = {first + i, a[i], b[i], relative};
    }
    // Sums of pieces: a sum over all elements, one by one, would lose the small ones at its end.
    square_a_ += square_a;
    square_b_ += square_b;
    square_difference_ += square_difference;
    product_ += product;
  }

  Difference result(const std::vector<int64_t>& shape) const {
    Difference result;
    const auto place = [&](const Extreme& extreme) -> Place {
      return {index_of(extreme.element, shape), extreme.a, extreme.b};
    };
    if (absolute_.size > 0) {
      result.largest_absolute = static_cast<double>(absolute_.size);
      result.largest_absolute_at = place(absolute_);
      result.largest_relative = static_cast<double>(relative_.size);
      result.largest_relative_at = place(relative_);
      result.relative_norm =
          static_cast<double>(std::sqrt(square_difference_) / std::sqrt(square_a_));
    }
    if (square_a_ > 0 && square_b_ > 0) {
      const Value cosine = product_ / (std::sqrt(square_a_) * std::sqrt(square_b_));
      result.cosine = static_cast<double>(std::clamp(cosine, Value{-1}, Value{1}));
    } else if (square_a_ > 0 || square_b_ > 0) {
      result.cosine = 0;
    }
    result.unlike = unlike_;
    if (unlike_ > 0) result.first_unlike = place(first_unlike_);
    return result;
  }

 private:
  struct Extreme {
    uint64_t element = 0;
    Value a = 0, b = 0;
    Value size = 0;
  };

  Value square_a_ = 0, square_b_ = 0, square_difference_ = 0, product_ = 0;
  Extreme absolute_, relative_, first_unlike_;
  uint64_t unlike_ = 0;
};

template <typename Value>
Difference measure(Reader& a, Reader& b) {
  Measure<Value> all;
  const Dtype& dtype_a = *a.dtype();
  const Dtype& dtype_b = *b.dtype();
  const bool in_ulps = &dtype_a == &dtype_b && dtype_a.kind == Dtype::Kind::kFloat;
  uint64_t largest = 0;
  std::vector<Value> values_a, values_b;
  const uint64_t count = a.tensor().size / dtype_a.size;
  for (uint64_t first = 0; first < count; first += kPiece) {
    const uint64_t size = std::min(kPiece, count - first);
    const std::span<const std::byte> bytes_a = a.read(first, size);
    const std::span<const std::byte> bytes_b = b.read(first, size);
    values_a.resize(static_cast<size_t>(size));
    values_b.resize(values_a.size());
    decode<Value>(dtype_a, bytes_a, values_a);
    decode<Value>(dtype_b, bytes_b, values_b);
    all.add(first, values_a, values_b);
    if (in_ulps) largest = std::max(largest, largest_ulps(dtype_a, bytes_a, bytes_b));
  }
  Difference result = all.result(a.tensor().shape);
  if (in_ulps) result.largest_ulps = largest;
  return result;
}

}  // namespace

std::optional<Difference> difference(const SafetensorsFile& a, const SafetensorsFile::Entry& in_a,
                                     const SafetensorsFile& b, const SafetensorsFile::Entry& in_b) {
  Reader reader_a(a, in_a);
  Reader reader_b(b, in_b);
  if (are_equal_bits(reader_a, reader_b)) {
    Difference none;
    none.equal_bits = true;
    return none;
  }
  if (reader_a.dtype() == nullptr || reader_b.dtype() == nullptr) return std::nullopt;
  if (reader_a.dtype()->fits_double && reader_b.dtype()->fits_double) {
    return measure<double>(reader_a, reader_b);
  }
  return measure<long double>(reader_a, reader_b);
}

}  // namespace keel::tensorfile
