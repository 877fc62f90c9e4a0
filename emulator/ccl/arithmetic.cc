// SPDX-License-Identifier: Apache-2.0
#include "emulator/ccl/arithmetic.h"

#include <cmath>
#include <concepts>
#include <cstring>
#include <keel/float_types.hpp>
#include <type_traits>

namespace keel::emulator::ccl {
namespace {

// A format: its storage type, its computation type, and the conversions between the two.
template <typename Number>
struct Plain {
  using Stored = Number;
  static Number load(Stored stored) { return stored; }
  static Stored store(Number value) { return value; }
};
template <typename Small, Small (*kRound)(float)>
struct Rounded {
  using Stored = Small;
  static float load(Stored stored) { return to_float(stored); }
  static Stored store(float value) { return kRound(value); }
};

template <typename Number>
Number scaled(Number value, double factor) {
  if constexpr (std::floating_point<Number>) {
    return value * static_cast<Number>(factor);
  } else {
    using Bits = std::make_unsigned_t<Number>;
    const auto whole = factor < 0 ? static_cast<Bits>(static_cast<int64_t>(factor))
                                  : static_cast<Bits>(static_cast<uint64_t>(factor));
    // In 64 bits: products of two 16-bit unsigned numbers would promote to signed int.
    return static_cast<Number>(static_cast<Bits>(uint64_t{static_cast<Bits>(value)} * whole));
  }
}

template <typename Number>
Number combined(Reduction reduction, Number a, Number b) {
  if constexpr (std::floating_point<Number>) {
    if (reduction == Reduction::kMin || reduction == Reduction::kMax) {
      if (std::isnan(a)) return a;
      if (std::isnan(b)) return b;
    }
    if (reduction == Reduction::kProduct) return a * b;
  }
  if (reduction == Reduction::kMin) return b < a ? b : a;
  if (reduction == Reduction::kMax) return a < b ? b : a;
  if constexpr (std::integral<Number>) {
    using Bits = std::make_unsigned_t<Number>;
    const uint64_t left = static_cast<Bits>(a);
    const uint64_t right = static_cast<Bits>(b);
    return static_cast<Number>(
        static_cast<Bits>(reduction == Reduction::kProduct ? left * right : left + right));
  } else {
    return a + b;
  }
}

template <typename Format>
void reduce_as(Reduction reduction, std::span<const std::byte* const> sources,
               std::span<const double> factors, uint64_t count, std::byte* result) {
  using Stored = typename Format::Stored;
  using Number = decltype(Format::load(Stored{}));
  const auto element = [&](size_t source, uint64_t i) {
    Stored stored;
    std::memcpy(&stored, sources[source] + i * sizeof(Stored), sizeof(Stored));
    const Number value = Format::load(stored);
    return reduction == Reduction::kScaledSum ? scaled(value, factors[source]) : value;
  };
  for (uint64_t i = 0; i < count; ++i) {
    Number value = element(0, i);
    for (size_t source = 1; source < sources.size(); ++source) {
      value = combined(reduction, value, element(source, i));
    }
    if (reduction == Reduction::kAverage) {
      value = static_cast<Number>(value / static_cast<Number>(sources.size()));
    }
    const Stored stored = Format::store(value);
    std::memcpy(result + i * sizeof(Stored), &stored, sizeof(Stored));
  }
}

}  // namespace

void reduce(Type type, Reduction reduction, std::span<const std::byte* const> sources,
            std::span<const double> factors, uint64_t count, std::byte* result) {
  const auto as = [&]<typename Format>(Format) {
    reduce_as<Format>(reduction, sources, factors, count, result);
  };
  switch (type) {
    case Type::kInt8:
      return as(Plain<int8_t>());
    case Type::kInt16:
      return as(Plain<int16_t>());
    case Type::kInt32:
      return as(Plain<int32_t>());
    case Type::kInt64:
      return as(Plain<int64_t>());
    case Type::kUint8:
      return as(Plain<uint8_t>());
    case Type::kUint16:
      return as(Plain<uint16_t>());
    case Type::kUint32:
      return as(Plain<uint32_t>());
    case Type::kUint64:
      return as(Plain<uint64_t>());
    case Type::kFloat16:
      return as(Rounded<float16_t, to_float16>());
    case Type::kBfloat16:
      return as(Rounded<bfloat16_t, to_bfloat16>());
    case Type::kFloat32:
      return as(Plain<float>());
    case Type::kFloat64:
      return as(Plain<double>());
    case Type::kFloat8E4m3:
      return as(Rounded<float8_e4m3_t, to_float8_e4m3>());
    case Type::kFloat8E5m2:
      return as(Rounded<float8_e5m2_t, to_float8_e5m2>());
  }
}

}  // namespace keel::emulator::ccl
