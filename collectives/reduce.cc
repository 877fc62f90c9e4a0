#include "collectives/reduce.h"

#include <algorithm>
#include <cstring>
#include <keel/float_types.hpp>
#include <keel/plugin_kit.hpp>
#include <type_traits>

namespace keel {

namespace {

// Elements of one block: 8 KiB of float32 accumulators, a quarter of a first-level cache.
constexpr uint64_t kBlock = 2048;

// What elements of |T| are accumulated in. Integers use their unsigned form, where
// wrapping is defined.
template <typename T>
struct Accumulator {
  using Type = float;
};
template <>
struct Accumulator<double> {
  using Type = double;
};
template <typename T>
requires std::is_integral_v<T>
struct Accumulator<T> {
  using Type = T;
};

template <typename T>
typename Accumulator<T>::Type load(T value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return value;
  } else {
    return to_float(value);
  }
}

template <typename T>
T store(typename Accumulator<T>::Type value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return value;
  } else if constexpr (std::is_same_v<T, float16_t>) {
    return to_float16(value);
  } else if constexpr (std::is_same_v<T, bfloat16_t>) {
    return to_bfloat16(value);
  } else if constexpr (std::is_same_v<T, float8_e4m3_t>) {
    return to_float8_e4m3(value);
  } else {
    return to_float8_e5m2(value);
  }
}

template <typename A, keel_reduction kReduction>
A combine(A a, A b) {
  if constexpr (kReduction == KEEL_MIN) {
    return b < a || b != b ? b : a;  // b != b: NaN wins
  } else if constexpr (kReduction == KEEL_MAX) {
    return a < b || b != b ? b : a;
  } else if constexpr (std::is_integral_v<A>) {
    // 64-bit unsigned arithmetic wraps like every narrower type does.
    const auto wide_a = static_cast<uint64_t>(a);
    const auto wide_b = static_cast<uint64_t>(b);
    return static_cast<A>(kReduction == KEEL_PROD ? wide_a * wide_b : wide_a + wide_b);
  } else {
    return kReduction == KEEL_PROD ? a * b : a + b;
  }
}

// What a block becomes, in the type that is stored: |sums| itself where that is the
// accumulator's, so that float32 goes through the cache once less.
template <typename T, typename A>
const T* finish_block(const A* sums, T* results, uint64_t size) {
  if constexpr (std::is_same_v<T, A>) {
    return sums;
  } else {
    for (uint64_t i = 0; i < size; ++i) results[i] = store<T>(sums[i]);
    return results;
  }
}

template <typename T, keel_reduction kReduction>
void reduce_typed(std::span<const void* const> sources, std::span<void* const> destinations,
                  uint64_t count) {
  using A = typename Accumulator<T>::Type;
  alignas(64) A sums[kBlock];
  alignas(64) T results[kBlock];
  for (uint64_t start = 0; start < count; start += kBlock) {
    const uint64_t size = std::min(kBlock, count - start);
    const auto block_of = [&](size_t s) { return static_cast<const T*>(sources[s]) + start; };
    const T* const first = block_of(0);
    size_t taken = 1;
    if (sources.size() > 1) {
      const T* const second = block_of(1);
      for (uint64_t i = 0; i < size; ++i) {
        sums[i] = combine<A, kReduction>(load(first[i]), load(second[i]));
      }
      taken = 2;
    } else {
      for (uint64_t i = 0; i < size; ++i) sums[i] = load(first[i]);
    }
    for (; taken < sources.size(); ++taken) {
      const T* const source = block_of(taken);
      for (uint64_t i = 0; i < size; ++i) {
        sums[i] = combine<A, kReduction>(sums[i], load(source[i]));
      }
    }
    if constexpr (kReduction == KEEL_AVG) {
      const A ranks = static_cast<A>(sources.size());
      for (uint64_t i = 0; i < size; ++i) sums[i] = static_cast<A>(sums[i] / ranks);
    }
    const T* const finished = finish_block<T, A>(sums, results, size);
    for (void* destination : destinations) {
      std::memcpy(static_cast<T*>(destination) + start, finished, size * sizeof(T));
    }
  }
}

template <typename T>
void reduce_dtype(keel_reduction reduction, std::span<const void* const> sources,
                  std::span<void* const> destinations, uint64_t count) {
  switch (reduction) {
    case KEEL_SUM:
      return reduce_typed<T, KEEL_SUM>(sources, destinations, count);
    case KEEL_PROD:
      return reduce_typed<T, KEEL_PROD>(sources, destinations, count);
    case KEEL_MIN:
      return reduce_typed<T, KEEL_MIN>(sources, destinations, count);
    case KEEL_MAX:
      return reduce_typed<T, KEEL_MAX>(sources, destinations, count);
    default:
      return reduce_typed<T, KEEL_AVG>(sources, destinations, count);
  }
}

}  // namespace

bool can_reduce(keel_dtype dtype, keel_reduction reduction) {
  return dtype > KEEL_DTYPE_INVALID && dtype < KEEL_DTYPE_COUNT && reduction <= KEEL_AVG;
}

void reduce(keel_dtype dtype, keel_reduction reduction, std::span<const void* const> sources,
            std::span<void* const> destinations, uint64_t count) {
  switch (dtype) {
    case KEEL_INT8:
      return reduce_dtype<int8_t>(reduction, sources, destinations, count);
    case KEEL_INT16:
      return reduce_dtype<int16_t>(reduction, sources, destinations, count);
    case KEEL_INT32:
      return reduce_dtype<int32_t>(reduction, sources, destinations, count);
    case KEEL_INT64:
      return reduce_dtype<int64_t>(reduction, sources, destinations, count);
    case KEEL_UINT8:
      return reduce_dtype<uint8_t>(reduction, sources, destinations, count);
    case KEEL_UINT16:
      return reduce_dtype<uint16_t>(reduction, sources, destinations, count);
    case KEEL_UINT32:
      return reduce_dtype<uint32_t>(reduction, sources, destinations, count);
    case KEEL_UINT64:
      return reduce_dtype<uint64_t>(reduction, sources, destinations, count);
    case KEEL_FLOAT16:
      return reduce_dtype<float16_t>(reduction, sources, destinations, count);
    case KEEL_BFLOAT16:
      return reduce_dtype<bfloat16_t>(reduction, sources, destinations, count);
    case KEEL_FLOAT32:
      return reduce_dtype<float>(reduction, sources, destinations, count);
    case KEEL_FLOAT64:
      return reduce_dtype<double>(reduction, sources, destinations, count);
    case KEEL_FLOAT8_E4M3FN:
      return reduce_dtype<float8_e4m3_t>(reduction, sources, destinations, count);
    default:
      return reduce_dtype<float8_e5m2_t>(reduction, sources, destinations, count);
  }
}

}  // namespace keel
