// SPDX-License-Identifier: Apache-2.0
#include "tools/perf/perf_data.h"

#include <algorithm>
#include <cstring>
#include <keel/float_types.hpp>
#include <keel/plugin_kit.hpp>
#include <type_traits>

namespace keel::cli {
namespace {

uint64_t mix(uint64_t seed, uint64_t stream, uint64_t index) {
  uint64_t word = (index + 1) * 0x9e3779b97f4a7c15 + (stream + 1) * 0xc2b2ae3d27d4eb4f + seed;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
  word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
  return word ^ (word >> 31);
}

// Streams of random numbers shared by all ranks, or by a pair of ranks.
constexpr uint64_t kShared = 1ull << 40;
constexpr uint64_t kPairs = 1ull << 41;

int64_t exact_limit(keel_dtype dtype) {
  switch (dtype) {
    case KEEL_INT8:
      return 127;
    case KEEL_UINT8:
      return 255;
    case KEEL_FLOAT8_E5M2:
      return 8;
    case KEEL_FLOAT8_E4M3FN:
      return 16;
    case KEEL_BFLOAT16:
      return 256;
    case KEEL_FLOAT16:
      return 2048;
    default:
      return 32767;  // int16's limit; enough for wider types
  }
}

int64_t draw(uint64_t word, int64_t most) {
  return static_cast<int64_t>(word % (static_cast<uint64_t>(most) + 1));
}

template <typename Stored>
Stored encode(int64_t value) {
  const auto number = static_cast<float>(value);
  if constexpr (std::is_same_v<Stored, float16_t>) {
    return to_float16(number);
  } else if constexpr (std::is_same_v<Stored, bfloat16_t>) {
    return to_bfloat16(number);
  } else if constexpr (std::is_same_v<Stored, float8_e4m3_t>) {
    return to_float8_e4m3(number);
  } else if constexpr (std::is_same_v<Stored, float8_e5m2_t>) {
    return to_float8_e5m2(number);
  } else {
    return static_cast<Stored>(value);
  }
}

template <typename Stored, typename Function>
void store_as(uint64_t index, std::span<std::byte> out, const Function& value) {
  for (size_t at = 0; at + sizeof(Stored) <= out.size(); at += sizeof(Stored), ++index) {
    const Stored stored = encode<Stored>(value(index));
    std::memcpy(out.data() + at, &stored, sizeof(stored));
  }
}

}  // namespace

PerfData::PerfData(keel_dtype dtype, std::optional<keel_reduction> reduction, uint32_t world,
                   uint64_t seed)
    : dtype_(dtype),
      reduction_(reduction),
      world_(world),
      seed_(seed),
      limit_(exact_limit(dtype)),
      is_signed_(dtype < KEEL_UINT8 || dtype > KEEL_UINT64),
      is_integer_(dtype <= KEEL_UINT64) {}

template <typename Function>
void PerfData::store_each(uint64_t index, std::span<std::byte> out, const Function& value) const {
  switch (dtype_) {
    case KEEL_INT8:
    case KEEL_UINT8:
      return store_as<uint8_t>(index, out, value);
    case KEEL_INT16:
    case KEEL_UINT16:
      return store_as<uint16_t>(index, out, value);
    case KEEL_INT32:
    case KEEL_UINT32:
      return store_as<uint32_t>(index, out, value);
    case KEEL_INT64:
    case KEEL_UINT64:
      return store_as<uint64_t>(index, out, value);
    case KEEL_FLOAT16:
      return store_as<float16_t>(index, out, value);
    case KEEL_BFLOAT16:
      return store_as<bfloat16_t>(index, out, value);
    case KEEL_FLOAT32:
      return store_as<float>(index, out, value);
    case KEEL_FLOAT64:
      return store_as<double>(index, out, value);
    case KEEL_FLOAT8_E4M3FN:
      return store_as<float8_e4m3_t>(index, out, value);
    case KEEL_FLOAT8_E5M2:
      return store_as<float8_e5m2_t>(index, out, value);
    default:
      break;
  }
}

int64_t PerfData::value(uint32_t rank, uint64_t index) const {
  const uint64_t own = mix(seed_, rank, index);
  const uint64_t shared = mix(seed_, kShared, index);
  // Chooses as many ranks as drawn for the index, a different set for each index.
  const auto is_chosen = [&](int64_t most) {
    return ((shared >> 32) + rank) % world_ < shared % (static_cast<uint64_t>(most) + 1);
  };
  constexpr int64_t kEnough = 1000;
  switch (*reduction_) {
    case KEEL_SUM:
    case KEEL_PREMUL_SUM: {
      const int64_t total = *reduction_ == KEEL_SUM ? limit_ : limit_ / 2;
      const int64_t each = std::min(total / world_, kEnough);
      if (each == 0) return is_chosen(total) ? 1 : 0;
      return is_signed_ ? draw(own, 2 * each) - each : draw(own, each);
    }
    case KEEL_PROD:  // powers of two, up to 64
      return is_chosen(6) ? 2 : 1;
    case KEEL_AVG: {
      // The average plus an offset; the pair's other rank has the negated offset.
      const uint32_t pair = rank / 2;
      const uint64_t drawn = mix(seed_, kPairs + pair, index);
      const int64_t average = reduced(index);
      const int64_t most = is_signed_ ? std::min(limit_ / 2, kEnough) : average;
      const int64_t offset = pair * 2 + 1 < world_ ? draw(drawn, most) : 0;
      return rank % 2 == 0 ? average + offset : average - offset;
    }
    default: {
      // Values are relative to a number of the index: otherwise the minimum over many ranks would
      // be the same everywhere.
      const int64_t half = std::min(limit_, kEnough) / 2;
      const int64_t number = draw(own, half) + draw(shared, half);
      return is_signed_ ? 2 * number - 2 * half : number;
    }
  }
}

int64_t PerfData::reduced(uint64_t index) const {
  if (*reduction_ == KEEL_AVG) {
    // Integers are summed before division, so no sum may exceed the limit.
    const int64_t most = std::min<int64_t>(limit_ / (is_integer_ ? std::max(world_, 2u) : 2), 1000);
    const uint64_t drawn = mix(seed_, kShared, index);
    return is_signed_ ? draw(drawn, 2 * most) - most : draw(drawn, most);
  }
  int64_t result = value(0, index);
  for (uint32_t rank = 1; rank < world_; ++rank) {
    const int64_t each = value(rank, index);
    switch (*reduction_) {
      case KEEL_PROD:
        result *= each;
        break;
      case KEEL_MIN:
        result = std::min(result, each);
        break;
      case KEEL_MAX:
        result = std::max(result, each);
        break;
      case KEEL_PREMUL_SUM:
        result += static_cast<int64_t>(factor(rank)) * each;
        break;
      default:
        result += each;
        break;
    }
  }
  return result;
}

void PerfData::fill(uint32_t rank, uint64_t index, std::span<std::byte> out) const {
  if (reduction_) {
    return store_each(index, out, [&](uint64_t at) { return value(rank, at); });
  }
  const uint64_t element_bytes = kit::dtype_size(dtype_);
  for (size_t at = 0; at + element_bytes <= out.size(); at += element_bytes, ++index) {
    const uint64_t bits = mix(seed_, rank, index);
    std::memcpy(out.data() + at, &bits, element_bytes);
  }
}

void PerfData::reduce(uint64_t index, std::span<std::byte> out) const {
  store_each(index, out, [&](uint64_t at) { return reduced(at); });
}

void PerfData::expect(const PerfOperation& operation, const PerfCounts& counts, uint32_t rank,
                      uint32_t root, uint64_t at, std::span<std::byte> out) const {
  const uint64_t element_bytes = kit::dtype_size(dtype_);
  while (!out.empty()) {
    const PerfSource source = operation.source(counts, at, rank, world_, root);
    const uint64_t length = std::min<uint64_t>(source.length, out.size() / element_bytes);
    const std::span<std::byte> part = out.first(length * element_bytes);
    if (source.reduced) {
      reduce(source.index, part);
    } else {
      fill(source.rank, source.index, part);
    }
    at += length;
    out = out.subspan(part.size());
  }
}

uint64_t count_wrong(std::span<const std::byte> got, std::span<const std::byte> expected,
                     uint64_t element_bytes) {
  if (std::memcmp(got.data(), expected.data(), expected.size()) == 0) return 0;
  uint64_t wrong = 0;
  for (size_t at = 0; at + element_bytes <= expected.size(); at += element_bytes) {
    wrong += std::memcmp(got.data() + at, expected.data() + at, element_bytes) != 0 ? 1 : 0;
  }
  return wrong;
}

}  // namespace keel::cli
