// SPDX-License-Identifier: Apache-2.0
// One pass over all sources: reads a chunk of each, combines the chunks in registers, and stores to
// every destination. Included, like reduce_vector.h, once for each instruction set.
#ifndef KEEL_COLLECTIVES_REDUCE_REDUCE_LOOPS_H_
#define KEEL_COLLECTIVES_REDUCE_REDUCE_LOOPS_H_

#include "collectives/reduce/reduce_kernel.h"
#include "collectives/reduce/reduce_vector.h"

namespace keel {
namespace {

template <typename T>
constexpr bool kIsFloat = T(0.5) != T(0);

template <typename V, typename T>
KEEL_INLINE V broadcast(T value) {
  return V{} + value;
}

// |a|: the earlier ranks combined; |b|: the next rank.
template <typename Codec, keel_reduction kReduction, typename V = typename Codec::Sums>
KEEL_INLINE V combine(V a, V b) {
  if constexpr (kReduction == KEEL_MIN) {
    const V lower = b < a ? b : a;
    return b != b ? b : lower;  // NaN wins
  } else if constexpr (kReduction == KEEL_MAX) {
    const V higher = a < b ? b : a;
    return b != b ? b : higher;
  } else if constexpr (kReduction == KEEL_PROD) {
    return a * b;
  } else if constexpr (kReduction == KEEL_BAND) {
    return a & b;
  } else if constexpr (kReduction == KEEL_BOR) {
    return a | b;
  } else if constexpr (kReduction == KEEL_BXOR) {
    return a ^ b;
  } else {
    using Added = typename Codec::Added;
    return bits_as<V>(bits_as<Added>(a) + bits_as<Added>(b));
  }
}

// Converts a factor to the accumulation type; of an integer modulo its range.
template <typename T>
KEEL_INLINE T factor_as(double factor) {
  if constexpr (kIsFloat<T>) {
    return static_cast<T>(factor);
  } else {
    return static_cast<T>(factor < 0 ? static_cast<uint64_t>(static_cast<int64_t>(factor))
                                     : static_cast<uint64_t>(factor));
  }
}

// Divides integers and truncates. Types below 64 bits use floating point: for whole a and n, a
// fractional quotient lies at least 1 / n below the next whole number, and rounding does not reach
// the whole number while a + n is below 2^24 in float, 2^53 in double.
template <typename T, uint64_t kLanes>
KEEL_INLINE void divide_integers(T* values, uint64_t divisor) {
  if constexpr (sizeof(T) == 8) {
    for (uint64_t i = 0; i < kLanes; ++i) values[i] /= static_cast<T>(divisor);
  } else if constexpr (sizeof(T) == 4) {
    const auto n = static_cast<double>(divisor);
    for (uint64_t i = 0; i < kLanes; ++i) {
      values[i] = static_cast<T>(static_cast<double>(values[i]) / n);
    }
  } else {
    const auto n = static_cast<float>(divisor);
    for (uint64_t i = 0; i < kLanes; ++i) {
      values[i] = static_cast<T>(static_cast<float>(values[i]) / n);
    }
  }
}

// Replaces every NaN by the NaN without payload: a sum of two NaNs keeps either, depending on the
// processor and on the compiler's order of operands.
template <typename Codec, keel_reduction kReduction>
KEEL_INLINE typename Codec::Sums finish(typename Codec::Sums sums, uint64_t ranks) {
  using Sum = typename Codec::Sum;
  if constexpr (kIsFloat<Sum>) {
    if constexpr (kReduction == KEEL_AVG) sums /= static_cast<Sum>(ranks);
    return sums != sums ? broadcast<typename Codec::Sums>(Sum(__builtin_nan(""))) : sums;
  } else if constexpr (kReduction == KEEL_AVG) {
    alignas(64) Sum lanes[Codec::kLanes];
    store_unaligned(sums, lanes);
    divide_integers<Sum, Codec::kLanes>(lanes, ranks);
    return load_unaligned<typename Codec::Sums>(lanes);
  }
  return sums;
}

// Prefetch distance. Hardware prefetching ends with a page and restarts on the next, so data
// outside the core's own caches is prefetched this far ahead. Two sources in memory and streaming
// stores: 52 GB/s on two cores instead of 41 (Granite Rapids); 58 instead of 53 from the last-level
// cache; a third less from the second-level cache, of 2 MiB here.
constexpr uint64_t kAheadBytes = 1024;
constexpr uint64_t kCachedBytes = 2 << 20;

// Whether sources and a destination fit the second-level cache.
KEEL_INLINE bool is_cached(const ReduceCall& call, uint64_t element) {
  return !call.streaming && call.count <= kCachedBytes / element / (call.source_count + 1);
}

template <typename Codec, keel_reduction kReduction>
struct Loop {
  using Sums = typename Codec::Sums;
  using Stored = typename Codec::Stored;
  using StoredVector = Vector<Stored, Codec::kLanes>;
  static constexpr uint64_t kVectorStored = sizeof(StoredVector);
  // Accumulator vectors of a chunk: with four, accumulators and loaded vectors fit the 16 registers
  // of AVX2. The 25 instructions of overhead of a chunk then cost as much as its loads, so half
  // vectors use eight where there are 32 registers.
  static constexpr uint64_t kVectors = sizeof(Sums) < KEEL_VECTOR_BYTES ? 8 : 4;
  static constexpr uint64_t kChunk = kVectors * Codec::kLanes;

  // Reads a chunk, or the first |size| elements of a vector, of one source. |start|: offset in
  // bytes.
  template <uint64_t kCount>
  static KEEL_INLINE void read(const ReduceCall& call, uint64_t source, uint64_t start,
                               uint64_t size, Sums* sums) {
    const char* const from = static_cast<const char*>(call.sources[source]) + start;
    if constexpr (kCount == 1) {
      sums[0] = Codec::decode(load_first<StoredVector>(from, size * sizeof(Stored)));
    } else {
      for (uint64_t v = 0; v < kCount; ++v) {
        sums[v] = Codec::decode(load_unaligned<StoredVector>(from + v * kVectorStored));
      }
    }
    if constexpr (kReduction == KEEL_PREMUL_SUM) {
      const auto factor = factor_as<typename Codec::Sum>(call.factors[source]);
      for (uint64_t v = 0; v < kCount; ++v) sums[v] *= factor;
    }
  }

  // Prefetches the chunk kAheadBytes ahead.
  static KEEL_INLINE void ask_ahead(const ReduceCall& call, uint64_t first, bool streaming) {
    const uint64_t start = first * sizeof(Stored) + kAheadBytes;
    for (uint64_t line = 0; line < kChunk * sizeof(Stored); line += 64) {
      for (uint64_t source = 0; source < call.source_count; ++source) {
        __builtin_prefetch(static_cast<const char*>(call.sources[source]) + start + line);
      }
      if (streaming) continue;
      for (uint64_t d = 0; d < call.destination_count; ++d) {
        __builtin_prefetch(static_cast<char*>(call.destinations[d]) + start + line, /*rw=*/1);
      }
    }
  }

  // Processes |kCount| vectors; a single vector may be partial.
  template <uint64_t kCount>
  static KEEL_INLINE void chunk(const ReduceCall& call, uint64_t first, uint64_t size,
                                bool streaming) {
    const uint64_t start = first * sizeof(Stored);
    Sums sums[kCount];
    read<kCount>(call, 0, start, size, sums);
    for (uint64_t source = 1; source < call.source_count; ++source) {
      Sums next[kCount];
      read<kCount>(call, source, start, size, next);
      for (uint64_t v = 0; v < kCount; ++v) {
        sums[v] = combine<Codec, kReduction>(sums[v], next[v]);
      }
    }
    const uint64_t ranks = call.divisor != 0 ? call.divisor : call.source_count;
    StoredVector results[kCount];
    for (uint64_t v = 0; v < kCount; ++v) {
      results[v] = Codec::encode(finish<Codec, kReduction>(sums[v], ranks));
    }
    for (uint64_t d = 0; d < call.destination_count; ++d) {
      char* const to = static_cast<char*>(call.destinations[d]) + start;
      if constexpr (kCount == 1) {
        store_first(results[0], to, size * sizeof(Stored));
      } else if (streaming) {
        for (uint64_t v = 0; v < kCount; ++v) store_streaming(results[v], to + v * kVectorStored);
      } else {
        for (uint64_t v = 0; v < kCount; ++v) store_unaligned(results[v], to + v * kVectorStored);
      }
    }
  }

  // Processes less than a chunk, vector by vector: most small operations are no larger.
  __attribute__((noinline)) static void partial(const ReduceCall& call, uint64_t first,
                                                uint64_t size) {
    for (; size > Codec::kLanes; first += Codec::kLanes, size -= Codec::kLanes) {
      chunk<1>(call, first, Codec::kLanes, false);
    }
    chunk<1>(call, first, size, false);
  }

  __attribute__((noinline)) static void run(const ReduceCall& given) {
    // A copy without aliasing stores: its fields are loaded once and not per chunk.
    const ReduceCall call = given;
    uint64_t first = 0;
    bool streaming = false;
    // A store across two cache lines costs two, and streaming stores must not cross lines.
    const auto address = reinterpret_cast<uintptr_t>(call.destinations[0]);
    if (call.count >= 4 * kChunk && address % sizeof(Stored) == 0) {
      const uint64_t head = (64 - address % 64) % 64 / sizeof(Stored);
      streaming = call.streaming;
      for (uint64_t d = 1; d < call.destination_count; ++d) {
        streaming &= (reinterpret_cast<uintptr_t>(call.destinations[d]) - address) % 64 == 0;
      }
      // In two steps if the head is longer than a chunk.
      while (first < head) {
        const uint64_t size = head - first < kChunk ? head - first : kChunk;
        partial(given, first, size);
        first += size;
      }
    }
    // The peers read the second destination and have its lines in their caches; and a source was
    // just written by another core then. With prefetching, 64 KiB of two staging ranks take 13 us
    // instead of 16.
    if (call.destination_count > 1 || !is_cached(call, sizeof(Stored))) {
      // Not past the end, where another rank may be writing.
      constexpr uint64_t kAhead = kAheadBytes / sizeof(Stored);
      for (; first + kAhead + kChunk <= call.count; first += kChunk) {
        ask_ahead(call, first, streaming);
        chunk<kVectors>(call, first, kChunk, streaming);
      }
    }
    for (; first + kChunk <= call.count; first += kChunk) {
      chunk<kVectors>(call, first, kChunk, streaming);
    }
    if (first < call.count) partial(given, first, call.count - first);
    if (streaming) fence_streaming();
  }
};

template <typename Codec>
void reduce_floats(const ReduceCall& call) {
  switch (call.reduction) {
    case KEEL_SUM:
      return Loop<Codec, KEEL_SUM>::run(call);
    case KEEL_PROD:
      return Loop<Codec, KEEL_PROD>::run(call);
    case KEEL_MIN:
      return Loop<Codec, KEEL_MIN>::run(call);
    case KEEL_MAX:
      return Loop<Codec, KEEL_MAX>::run(call);
    case KEEL_AVG:
      return Loop<Codec, KEEL_AVG>::run(call);
    default:
      return Loop<Codec, KEEL_PREMUL_SUM>::run(call);
  }
}

// Uses whole vectors for data in the second-level cache: 64 KiB of float32 take 2.9 us with whole
// and 3.9 with half vectors for two sources, 9 and 15 for eight (Cascade Lake).
template <typename T>
void reduce_plain_floats(const ReduceCall& call) {
#if KEEL_VECTOR_BYTES == 64
  if (is_cached(call, sizeof(T))) return reduce_floats<Plain<T, 64>>(call);
#endif
  reduce_floats<Plain<T>>(call);
}

// Bitwise reductions of |element| bytes each: bits do not depend on the width of the integers.
void reduce_bits(const ReduceCall& given, uint64_t element) {
  ReduceCall call = given;
  call.count *= element;
  if (call.reduction == KEEL_BAND) return Loop<Plain<uint8_t>, KEEL_BAND>::run(call);
  if (call.reduction == KEEL_BOR) return Loop<Plain<uint8_t>, KEEL_BOR>::run(call);
  return Loop<Plain<uint8_t>, KEEL_BXOR>::run(call);
}

// Sums and products use |Unsigned|, wrap, and have the same bits for both signs.
template <typename Signed, typename Unsigned>
void reduce_integers(const ReduceCall& call, bool is_signed) {
  switch (call.reduction) {
    case KEEL_SUM:
      return Loop<Plain<Unsigned>, KEEL_SUM>::run(call);
    case KEEL_PROD:
      return Loop<Plain<Unsigned>, KEEL_PROD>::run(call);
    case KEEL_MIN:
      return is_signed ? Loop<Plain<Signed>, KEEL_MIN>::run(call)
                       : Loop<Plain<Unsigned>, KEEL_MIN>::run(call);
    case KEEL_MAX:
      return is_signed ? Loop<Plain<Signed>, KEEL_MAX>::run(call)
                       : Loop<Plain<Unsigned>, KEEL_MAX>::run(call);
    case KEEL_AVG:
      return is_signed ? Loop<Plain<Signed>, KEEL_AVG>::run(call)
                       : Loop<Plain<Unsigned>, KEEL_AVG>::run(call);
    case KEEL_PREMUL_SUM:
      return Loop<Plain<Unsigned>, KEEL_PREMUL_SUM>::run(call);
    default:
      return reduce_bits(call, sizeof(Unsigned));
  }
}

void reduce_call(const ReduceCall& call) {
  switch (call.dtype) {
    case KEEL_INT8:
    case KEEL_UINT8:
      return reduce_integers<int8_t, uint8_t>(call, call.dtype == KEEL_INT8);
    case KEEL_INT16:
    case KEEL_UINT16:
      return reduce_integers<int16_t, uint16_t>(call, call.dtype == KEEL_INT16);
    case KEEL_INT32:
    case KEEL_UINT32:
      return reduce_integers<int32_t, uint32_t>(call, call.dtype == KEEL_INT32);
    case KEEL_INT64:
    case KEEL_UINT64:
      return reduce_integers<int64_t, uint64_t>(call, call.dtype == KEEL_INT64);
    case KEEL_FLOAT16:
      return reduce_floats<Float16>(call);
    case KEEL_BFLOAT16:
      return reduce_floats<Bfloat16>(call);
    case KEEL_FLOAT32:
      return reduce_plain_floats<float>(call);
    case KEEL_FLOAT64:
      return reduce_plain_floats<double>(call);
    case KEEL_FLOAT8_E4M3FN:
      return reduce_floats<Float8E4m3>(call);
    default:
      return reduce_floats<Float8E5m2>(call);
  }
}

}  // namespace
}  // namespace keel

#endif  // KEEL_COLLECTIVES_REDUCE_REDUCE_LOOPS_H_
