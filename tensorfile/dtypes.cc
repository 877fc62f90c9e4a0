// SPDX-License-Identifier: Apache-2.0
#include "tensorfile/dtypes.h"

#include <algorithm>
#include <cstring>
#include <keel/float_types.hpp>

namespace keel::tensorfile {
namespace {

using Kind = Dtype::Kind;

constexpr Dtype kDtypes[] = {
    {"F64", Kind::kFloat, 8, 1e-12, 0x7ff0'0000'0000'0000, false},
    {"F32", Kind::kFloat, 4, 1e-5, 0x7f80'0000, true},
    {"F16", Kind::kFloat, 2, 4e-3, 0x7c00, true},
    {"BF16", Kind::kFloat, 2, 2e-2, 0x7f80, true},
    {"F8_E4M3", Kind::kFloat, 1, 0.1, 0x7f, true},
    {"F8_E5M2", Kind::kFloat, 1, 0.2, 0x7c, true},
    {"I64", Kind::kSigned, 8, 0, 0, false},
    {"I32", Kind::kSigned, 4, 0, 0, true},
    {"I16", Kind::kSigned, 2, 0, 0, true},
    {"I8", Kind::kSigned, 1, 0, 0, true},
    {"U64", Kind::kUnsigned, 8, 0, 0, false},
    {"U32", Kind::kUnsigned, 4, 0, 0, true},
    {"U16", Kind::kUnsigned, 2, 0, 0, true},
    {"U8", Kind::kUnsigned, 1, 0, 0, true},
    {"BOOL", Kind::kUnsigned, 1, 0, 0, true},
};

// Dtypes without an entry above.
constexpr struct {
  std::string_view name;
  uint64_t bits;
} kOpaque[] = {{"F4", 4},          {"F6_E2M3", 6},     {"F6_E3M2", 6}, {"F8_E8M0", 8},
               {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"C64", 64}};

// Copies an element, because files do not align tensors.
template <typename Stored>
Stored element(std::span<const std::byte> bytes, size_t index) {
  Stored stored;
  std::memcpy(&stored, bytes.data() + index * sizeof(Stored), sizeof(Stored));
  return stored;
}

template <typename Stored, typename Value, typename Convert>
void decode_all(std::span<const std::byte> bytes, std::span<Value> values, Convert convert) {
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<Value>(convert(element<Stored>(bytes, i)));
  }
}

template <typename Stored, typename Value>
void decode_plain(std::span<const std::byte> bytes, std::span<Value> values) {
  decode_all<Stored>(bytes, values, [](Stored stored) { return stored; });
}

template <typename Small, typename Value>
void decode_small(std::span<const std::byte> bytes, std::span<Value> values) {
  decode_all<Small>(bytes, values, [](Small stored) { return to_float(stored); });
}

template <typename Code>
uint64_t largest_ulps_of(uint64_t infinity, std::span<const std::byte> a,
                         std::span<const std::byte> b) {
  constexpr auto kSign = static_cast<Code>(Code{1} << (8 * sizeof(Code) - 1));
  uint64_t largest = 0;
  for (size_t i = 0; i < a.size() / sizeof(Code); ++i) {
    const auto code_a = element<Code>(a, i);
    const auto code_b = element<Code>(b, i);
    const uint64_t size_a = code_a & (kSign - 1);
    const uint64_t size_b = code_b & (kSign - 1);
    if (size_a >= infinity || size_b >= infinity) continue;
    const bool same_sign = ((code_a ^ code_b) & kSign) == 0;
    // Zeroes of both signs are one value.
    const uint64_t distance =
        same_sign ? std::max(size_a, size_b) - std::min(size_a, size_b) : size_a + size_b;
    largest = std::max(largest, distance);
  }
  return largest;
}

}  // namespace

const Dtype* find_dtype(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kDtypes), std::end(kDtypes),
                                         [&](const Dtype& dtype) { return dtype.name == name; });
  return found == std::end(kDtypes) ? nullptr : found;
}

uint64_t bits_of(std::string_view dtype) {
  if (const Dtype* const found = find_dtype(dtype); found != nullptr) return 8 * found->size;
  const auto* const found = std::find_if(std::begin(kOpaque), std::end(kOpaque),
                                         [&](const auto& each) { return each.name == dtype; });
  return found == std::end(kOpaque) ? 0 : found->bits;
}

template <typename Value>
void decode(const Dtype& dtype, std::span<const std::byte> bytes, std::span<Value> values) {
  switch (dtype.kind) {
    case Kind::kFloat:
      if (dtype.size == 8) return decode_plain<double>(bytes, values);
      if (dtype.size == 4) return decode_plain<float>(bytes, values);
      if (dtype.name == "BF16") return decode_small<bfloat16_t>(bytes, values);
      if (dtype.name == "F16") return decode_small<float16_t>(bytes, values);
      if (dtype.name == "F8_E4M3") return decode_small<float8_e4m3_t>(bytes, values);
      return decode_small<float8_e5m2_t>(bytes, values);
    case Kind::kSigned:
      if (dtype.size == 8) return decode_plain<int64_t>(bytes, values);
      if (dtype.size == 4) return decode_plain<int32_t>(bytes, values);
      if (dtype.size == 2) return decode_plain<int16_t>(bytes, values);
      return decode_plain<int8_t>(bytes, values);
    case Kind::kUnsigned:
      if (dtype.size == 8) return decode_plain<uint64_t>(bytes, values);
      if (dtype.size == 4) return decode_plain<uint32_t>(bytes, values);
      if (dtype.size == 2) return decode_plain<uint16_t>(bytes, values);
      return decode_plain<uint8_t>(bytes, values);
  }
}

template void decode(const Dtype&, std::span<const std::byte>, std::span<double>);
template void decode(const Dtype&, std::span<const std::byte>, std::span<long double>);

uint64_t largest_ulps(const Dtype& dtype, std::span<const std::byte> a,
                      std::span<const std::byte> b) {
  if (dtype.size == 8) return largest_ulps_of<uint64_t>(dtype.infinity, a, b);
  if (dtype.size == 4) return largest_ulps_of<uint32_t>(dtype.infinity, a, b);
  if (dtype.size == 2) return largest_ulps_of<uint16_t>(dtype.infinity, a, b);
  return largest_ulps_of<uint8_t>(dtype.infinity, a, b);
}

}  // namespace keel::tensorfile
