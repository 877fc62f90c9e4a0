// SPDX-License-Identifier: Apache-2.0
#include "ops/testing/conversions.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <keel/plugin/numbers.hpp>
#include <keel/plugin_kit.hpp>
#include <limits>

#include "ops/testing/reference.h"

namespace keel::ops {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Without subnormals of float32, which kernels may flush, and of float64.
constexpr double kFloats[] = {
    kNaN, kInfinity, -kInfinity, 0.0, -0.0, 1, -1, 0.5, -0.5, 0.999, -0.999, 1.5, 2.5, -2.5, 3.75,
    // The ends of int8, uint8, int16 and float16.
    127, 127.9, 128, -128, -128.9, -129, 255, 255.9, 256, 300.75, -300.75, 32767.5, 32768, -32769,
    65504, 65519.99, 65520, 65535, 65536.5, -70000.25,
    // Integers that float32 and float64 skip, and the ends of int32 and int64.
    0x1p24 - 0.5, 0x1p24 + 1, -0x1p24 - 3, 0x1p25 + 6, 0x1p31 - 128, 0x1p31 - 1, -0x1p31, 0x1p31,
    0x1p32 + 5, 0x1p53 - 1, 0x1p53 + 2, -0x1p53 - 2, 0x1p62 + 0x1p12, 0x1p63 - 0x1p10, -0x1p63,
    0x1p63,
    // The ends of bfloat16 and float32, and numbers of float64 alone.
    0x1.fep127, 0x1.fefffep127, 0x1.ffp127, 0x1.fffffep127, 0x1.fffffefp127, -0x1.fffffffp127,
    1e300, -1e300, 1e-300,
    // Ties, and numbers beside one that a rounding to float32 would turn into a tie.
    1 + 0x1p-11, 1 + 0x1p-11 + 0x1p-40, 1 + 3 * 0x1p-11 - 0x1p-40, 1 + 0x1p-8, 1 + 0x1p-8 + 0x1p-40,
    1 + 3 * 0x1p-8 - 0x1p-40, 1 + 0x1p-24, 1 + 0x1p-24 + 0x1p-50, 1 + 3 * 0x1p-24, 0x1p-24,
    0x1.8p-25, 0x1p-25, 3.141592653589793, -1.0 / 3};

constexpr int64_t power(int exponent) {
  return int64_t{1} << exponent;
}

constexpr int64_t kIntegers[] = {
    0, 1, -1, 2, 100, -100, 127, 128, -128, -129, 255, 256, -256, 300, 32767, 32768, -32768, -32769,
    65504, 65519, 65520, 65535, 65536, power(24) - 1, power(24) + 1, power(24) + 3, -power(24) - 1,
    power(25) + 2, power(25) + 6, power(30) + 65, power(31) - 65, power(31) - 64, power(31) - 1,
    power(31), -power(31), -power(31) - 1, power(32) - 1, power(32) + 5, -power(32) - 7,
    power(53) - 1, power(53) + 1, -power(53) - 1, power(53) + 3,
    // Rounding to float64 and then to float32 would miss these, to float32 alone the last.
    power(53) + power(29) + 1, power(62) + power(38) + 1, -power(62) - power(38) - 1,
    power(24) + power(16) + 1, power(62) + 1, INT64_MAX, INT64_MIN, INT64_MIN + 1};

double saturated(double value, keel_dtype dtype) {
  return round_to_dtype(value, dtype == KEEL_INT64 ? KEEL_INT64 : KEEL_INT32);
}

// Whether truncating |value| to |to| is specified.
bool is_specified(double value, keel_dtype to) {
  const double end = to == KEEL_INT64 ? 0x1p63 : 0x1p31;
  return value >= -end && value < end;
}

}  // namespace

std::vector<int64_t> read_integers(const keel_tensor& tensor) {
  std::vector<int64_t> values;
  values.reserve(static_cast<size_t>(kit::element_count(tensor)));
  const char* const data = kit::first_element<const char>(tensor);
  const uint32_t size = kit::dtype_size(tensor.dtype);
  const int spare = 64 - 8 * static_cast<int>(size);
  const bool is_signed = tensor.dtype <= KEEL_INT64;
  kit::for_each_element(tensor, [&](int64_t offset) {
    uint64_t bits = 0;  // little endian
    std::memcpy(&bits, data + offset * int64_t{size}, size);
    bits <<= spare;
    values.push_back(is_signed ? static_cast<int64_t>(bits) >> spare
                               : static_cast<int64_t>(bits >> spare));
  });
  return values;
}

double wrap_to_dtype(int64_t value, keel_dtype dtype) {
  switch (dtype) {
    case KEEL_INT32:
      return static_cast<int32_t>(value);
    case KEEL_INT16:
      return static_cast<int16_t>(value);
    case KEEL_INT8:
      return static_cast<int8_t>(value);
    case KEEL_UINT8:
      return static_cast<uint8_t>(value);
    default:
      return static_cast<double>(value);
  }
}

double truncate_to_dtype(double value, keel_dtype dtype) {
  const double within = saturated(value, dtype);
  // The nearest float64 to the largest int64 is beyond it.
  if (within >= 0x1p63) return within;
  return wrap_to_dtype(static_cast<int64_t>(within), dtype);
}

double round_once_to_dtype(double value, keel_dtype dtype) {
  const auto nearest = static_cast<float>(value);
  const bool is_exact = static_cast<double>(nearest) == value || std::isnan(value);
  if (is_exact || (dtype != KEEL_FLOAT16 && dtype != KEEL_BFLOAT16)) {
    return round_to_dtype(value, dtype);
  }
  // The float32 with an odd last bit beside |value|: no tie of 16 bits, and on the same side.
  auto bits = std::bit_cast<uint32_t>(nearest);
  if (std::abs(static_cast<double>(nearest)) > std::abs(value)) --bits;
  return round_to_dtype(std::bit_cast<float>(bits | 1u), dtype);
}

double round_integer(int64_t value, keel_dtype computed) {
  return computed == KEEL_FLOAT32 ? static_cast<float>(value) : static_cast<double>(value);
}

void store_conversion(void* data, keel_dtype from, keel_dtype to, int64_t element, uint64_t index) {
  if (kit::is_integer(from)) {
    const int64_t value = kIntegers[index % std::size(kIntegers)];
    const uint32_t size = kit::dtype_size(from);
    std::memcpy(static_cast<char*>(data) + element * int64_t{size}, &value, size);  // wraps
    return;
  }
  const double value = round_to_dtype(kFloats[index % std::size(kFloats)], from);
  const bool is_taken = !kit::is_integer(to) || is_specified(value, to);
  store_element(data, from, element,
                is_taken ? value : 0.5 + static_cast<double>(index % 200) - 100);
}

}  // namespace keel::ops
