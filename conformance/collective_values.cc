// SPDX-License-Identifier: Apache-2.0
#include "conformance/collective_values.h"

#include <algorithm>
#include <cstring>
#include <keel/float_types.hpp>
#include <keel/plugin_kit.hpp>

namespace keel::conformance {

namespace {

// Returns the largest value that a rank sends. Sums of eight are exact in the dtype and wrong in
// the next narrower dtype, so that computing in the narrower dtype is detected.
int64_t largest(keel_dtype dtype) {
  switch (dtype) {
    case KEEL_INT64:
    case KEEL_UINT64:
    case KEEL_FLOAT64:
      return int64_t{1} << 40;
    case KEEL_INT32:
    case KEEL_UINT32:
      return 1 << 27;
    case KEEL_FLOAT32:
      return 1 << 20;
    case KEEL_INT16:
    case KEEL_UINT16:
      return 1 << 11;
    case KEEL_FLOAT16:
      return 1 << 8;
    case KEEL_BFLOAT16:
      return 1 << 5;
    case KEEL_FLOAT8_E4M3FN:
      return 2;
    case KEEL_FLOAT8_E5M2:
      return 1;
    default:
      return 15;
  }
}

template <typename Stored>
void put(std::byte* out, Stored value) {
  std::memcpy(out, &value, sizeof(value));
}

// Encodes |value|, which |dtype| represents exactly.
void encode(keel_dtype dtype, int64_t value, std::byte* out) {
  const auto real = static_cast<float>(value);
  switch (dtype) {
    case KEEL_FLOAT16:
      return put(out, to_float16(real));
    case KEEL_BFLOAT16:
      return put(out, to_bfloat16(real));
    case KEEL_FLOAT8_E4M3FN:
      return put(out, to_float8_e4m3(real));
    case KEEL_FLOAT8_E5M2:
      return put(out, to_float8_e5m2(real));
    case KEEL_FLOAT32:
      return put(out, real);
    case KEEL_FLOAT64:
      return put(out, static_cast<double>(value));
    default:
      std::memcpy(out, &value, kit::dtype_size(dtype));  // little-endian
  }
}

}  // namespace

int64_t value_of(keel_dtype dtype, keel_reduction reduction, uint32_t world, uint32_t rank,
                 uint64_t i) {
  const uint64_t noise = (i + 1) * 0x9e3779b97f4a7c15 ^ (rank + 1) * 0xbf58476d1ce4e5b9;
  const auto mixed = static_cast<int64_t>((noise ^ noise >> 29) >> 20);
  if (reduction == KEEL_PROD) return rank < 4 ? 1 + mixed % 2 : 1;
  const int64_t top = largest(dtype);
  // An average is whole if every value is a multiple of the world size; small types use 1.
  if (reduction == KEEL_AVG) return top > 16 ? mixed % (top / world) / world * world : 1;
  if (dtype == KEEL_FLOAT8_E5M2 && rank > 2) return 0;
  // Below 2^53 with a factor of 25 bits.
  if (reduction == KEEL_PREMUL_SUM && dtype == KEEL_FLOAT64) return mixed % (1 << 20);
  if (reduction == KEEL_PREMUL_SUM) return mixed % (top / 2 + 1);
  return top - mixed % (top / 2 + 1);
}

double factor_of(keel_dtype dtype, uint32_t rank) {
  if (rank % 2 != 0) return 1;
  return dtype == KEEL_FLOAT64 ? 0x1p24 + 1 : 2;
}

int64_t reduced(keel_dtype dtype, keel_reduction reduction, uint32_t world, uint64_t i) {
  int64_t result = 0;
  for (uint32_t rank = 0; rank < world; ++rank) {
    const int64_t value = value_of(dtype, reduction, world, rank, i);
    switch (reduction) {
      case KEEL_PROD:
        result = rank == 0 ? value : result * value;
        break;
      case KEEL_MIN:
        result = rank == 0 ? value : std::min(result, value);
        break;
      case KEEL_MAX:
        result = rank == 0 ? value : std::max(result, value);
        break;
      case KEEL_PREMUL_SUM:
        result += value * static_cast<int64_t>(factor_of(dtype, rank));
        break;
      default:
        result += value;
    }
  }
  if (reduction != KEEL_AVG || world == 0) return result;
  return result / world;
}

Bytes elements(keel_dtype dtype, uint64_t first, uint64_t count,
               const std::function<int64_t(uint64_t)>& value) {
  const uint64_t element = kit::dtype_size(dtype);
  Bytes bytes(count * element);
  for (uint64_t i = 0; i < count; ++i) encode(dtype, value(first + i), &bytes[i * element]);
  return bytes;
}

}  // namespace keel::conformance
