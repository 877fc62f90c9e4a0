// SPDX-License-Identifier: Apache-2.0
// Vectors of KEEL_VECTOR_BYTES as compiler extensions, and the conversions between each dtype and
// its accumulation type. Included only by the files for a single instruction set: all names have
// internal linkage, and inline functions of foreign headers are not called, so the linker cannot
// put a function for one processor where another processor runs it.
#ifndef KEEL_COLLECTIVES_REDUCE_REDUCE_VECTOR_H_
#define KEEL_COLLECTIVES_REDUCE_REDUCE_VECTOR_H_

#include <cstdint>
#include <type_traits>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define KEEL_INLINE inline __attribute__((always_inline))

namespace keel {
namespace {

template <typename T, uint64_t kLanes>
struct VectorType {
  typedef T Type __attribute__((vector_size(sizeof(T) * kLanes)));
};
template <typename T, uint64_t kLanes>
using Vector = typename VectorType<T, kLanes>::Type;

// For masked intrinsics: GCC 12 warns about the forms without a mask (GCC bug 105593).
constexpr uint16_t kAllLanes = 0xffff;

template <typename To, typename From>
KEEL_INLINE To bits_as(From from) {
  return __builtin_bit_cast(To, from);
}

template <typename V>
KEEL_INLINE V load_unaligned(const void* from) {
  V value;
  __builtin_memcpy(&value, from, sizeof(V));
  return value;
}

template <typename V>
KEEL_INLINE void store_unaligned(V value, void* to) {
  __builtin_memcpy(to, &value, sizeof(V));
}

#if KEEL_VECTOR_BYTES == 64
KEEL_INLINE uint64_t mask_of_first(uint64_t bytes) {
  return bytes >= 64 ? ~uint64_t{0} : (uint64_t{1} << bytes) - 1;
}
#elif KEEL_VECTOR_BYTES == 32
KEEL_INLINE __m256i mask_of_first(uint64_t bytes) {  // whole lanes of 32 bits
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(bytes / 4)), lanes);
}
#endif

// Loads the first |bytes| of a vector, with zeros behind, and reads no more. Avoids a copy in
// memory where the processor can: a vector load from the target of recent narrower stores waits
// until all earlier stores are in the cache. The store to the rank's operation descriptor, in a
// line held by a remote core, is among the earlier stores, and the wait takes 140 of the 500 ns of
// an all_reduce of 8 bytes between two cores.
template <typename V>
KEEL_INLINE V load_first(const void* from, uint64_t bytes) {
#if KEEL_VECTOR_BYTES == 64
  const uint64_t mask = mask_of_first(bytes);
  if constexpr (sizeof(V) == 64) {
    return bits_as<V>(_mm512_maskz_loadu_epi8(mask, from));
  } else if constexpr (sizeof(V) == 32) {
    return bits_as<V>(_mm256_maskz_loadu_epi8(static_cast<uint32_t>(mask), from));
  } else {
    static_assert(sizeof(V) == 16);
    return bits_as<V>(_mm_maskz_loadu_epi8(static_cast<uint16_t>(mask), from));
  }
#else
#if KEEL_VECTOR_BYTES == 32
  if constexpr (sizeof(V) == 32 && sizeof(V{}[0]) >= 4) {
    return bits_as<V>(_mm256_maskload_epi32(static_cast<const int*>(from), mask_of_first(bytes)));
  }
#endif
  alignas(V) char padded[sizeof(V)] = {};
  __builtin_memcpy(padded, from, bytes);
  return load_unaligned<V>(padded);
#endif
}

// Stores exactly the first |bytes| of |value|. Avoids a call of memcpy where the processor can: two
// floats of two sources take 12 ns instead of 36.
template <typename V>
KEEL_INLINE void store_first(V value, void* to, uint64_t bytes) {
#if KEEL_VECTOR_BYTES == 64
  const uint64_t mask = mask_of_first(bytes);
  if constexpr (sizeof(V) == 64) {
    _mm512_mask_storeu_epi8(to, mask, bits_as<__m512i>(value));
  } else if constexpr (sizeof(V) == 32) {
    _mm256_mask_storeu_epi8(to, static_cast<uint32_t>(mask), bits_as<__m256i>(value));
  } else {
    static_assert(sizeof(V) == 16);
    _mm_mask_storeu_epi8(to, static_cast<uint16_t>(mask), bits_as<__m128i>(value));
  }
#else
#if KEEL_VECTOR_BYTES == 32
  if constexpr (sizeof(V) == 32 && sizeof(V{}[0]) >= 4) {
    _mm256_maskstore_epi32(static_cast<int*>(to), mask_of_first(bytes), bits_as<__m256i>(value));
    return;
  }
#endif
  __builtin_memcpy(to, &value, bytes);
#endif
}

// Stores past the caches, where the processor can. |to| is aligned to the vector's size.
template <typename V>
KEEL_INLINE void store_streaming(V value, void* to) {
#if defined(__x86_64__)
#if KEEL_VECTOR_BYTES >= 64
  if constexpr (sizeof(V) == 64) {
    return _mm512_stream_si512(static_cast<__m512i*>(to), bits_as<__m512i>(value));
  }
#endif
#if KEEL_VECTOR_BYTES >= 32
  if constexpr (sizeof(V) == 32) {
    return _mm256_stream_si256(static_cast<__m256i*>(to), bits_as<__m256i>(value));
  }
#endif
  if constexpr (sizeof(V) == 16) {
    return _mm_stream_si128(static_cast<__m128i*>(to), bits_as<__m128i>(value));
  }
#endif
  store_unaligned(value, to);
}

// Orders streaming stores before the thread's next stores.
KEEL_INLINE void fence_streaming() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

// Convert codes of 16 or 8 bits to 32 and back. Intrinsics are used where the compiler does not
// find the instructions (GCC 12 takes bytes apart one by one).
template <typename Codes, typename Bits>
KEEL_INLINE Bits widen(Codes codes) {
#if KEEL_VECTOR_BYTES == 64
  if constexpr (sizeof(Codes) == 32) {
    return bits_as<Bits>(_mm512_maskz_cvtepu16_epi32(kAllLanes, bits_as<__m256i>(codes)));
  } else {
    return bits_as<Bits>(_mm512_maskz_cvtepu8_epi32(kAllLanes, bits_as<__m128i>(codes)));
  }
#elif KEEL_VECTOR_BYTES == 32
  if constexpr (sizeof(Codes) == 16) {
    return bits_as<Bits>(_mm256_cvtepu16_epi32(bits_as<__m128i>(codes)));
  } else {
    return bits_as<Bits>(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(bits_as<long long>(codes))));
  }
#else
  return __builtin_convertvector(codes, Bits);
#endif
}

template <typename Codes, typename Bits>
KEEL_INLINE Codes narrow(Bits bits) {
#if KEEL_VECTOR_BYTES == 32
  const auto all = bits_as<__m256i>(bits);
  const __m128i words =
      _mm_packus_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
  if constexpr (sizeof(Codes) == 16) {
    return bits_as<Codes>(words);
  } else {
    return bits_as<Codes>(_mm_cvtsi128_si64(_mm_packus_epi16(words, words)));
  }
#else
  return __builtin_convertvector(bits, Codes);
#endif
}

// A codec: the type in memory, the accumulation type, and the lanes of one accumulator vector.

// Type for additions of |T|: unsigned for integers, with defined wrapping.
template <typename T>
struct AddedAs {
  using Type = T;
};
template <typename T>
requires std::is_integral_v<T>
struct AddedAs<T> {
  using Type = std::make_unsigned_t<T>;
};

// Half vectors with AVX-512, unless |kMost| is larger: from memory, whole vectors reach 26 GB/s and
// half vectors 32 (float32, two sources, reads and writes, Zen 4).
template <typename T, uint64_t kMost = 32>
struct Plain {
  using Stored = T;
  using Sum = T;
  static constexpr uint64_t kBytes = KEEL_VECTOR_BYTES < kMost ? KEEL_VECTOR_BYTES : kMost;
  static constexpr uint64_t kLanes = kBytes / sizeof(T);
  using Sums = Vector<T, kLanes>;
  using Added = Vector<typename AddedAs<T>::Type, kLanes>;

  static KEEL_INLINE Sums decode(Sums stored) { return stored; }
  static KEEL_INLINE Sums encode(Sums sums) { return sums; }
};

struct InFloat32 {
  using Sum = float;
  static constexpr uint64_t kLanes = KEEL_VECTOR_BYTES / sizeof(float);
  using Sums = Vector<float, kLanes>;
  using Added = Sums;
  using Bits = Vector<uint32_t, kLanes>;
  using Ints = Vector<int32_t, kLanes>;
};

struct Bfloat16 : InFloat32 {
  using Stored = uint16_t;
  using Codes = Vector<uint16_t, kLanes>;

  static KEEL_INLINE Sums decode(Codes codes) {
    return bits_as<Sums>(widen<Codes, Bits>(codes) << 16);
  }
  // A NaN has no payload here, so rounding cannot carry out of the exponent.
  static KEEL_INLINE Codes encode(Sums sums) {
    const Bits bits = bits_as<Bits>(sums);
    return narrow<Codes, Bits>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  }
};

// A float of |kExponent| and |kMantissa| bits below a sign; |kFinite| as in float_types.hpp. The
// form without branches of the conversions there.
template <typename T, int kExponent, int kMantissa, bool kFinite>
struct SmallFloat : InFloat32 {
  using Stored = T;
  using Codes = Vector<T, kLanes>;

  static constexpr int kBias = (1 << (kExponent - 1)) - 1;
  static constexpr uint32_t kTop = (1u << (kExponent + kMantissa)) - 1;
  static constexpr uint32_t kInfinity = ((1u << kExponent) - 1) << kMantissa;
  static constexpr int kSignShift = 31 - kExponent - kMantissa;
  static constexpr int kMantissaShift = 23 - kMantissa;

  static KEEL_INLINE Sums decode(Codes codes) {
    const Bits wide = widen<Codes, Bits>(codes);
    const Bits sign = (wide & (kTop + 1)) << kSignShift;
    const Bits magnitude = wide & kTop;
    Bits bits = (magnitude << kMantissaShift) + (static_cast<uint32_t>(127 - kBias) << 23);
    // Decodes subnormals by a product, without float32 subnormals: processors may handle these
    // slowly or be configured to flush.
    constexpr float kScale =
        __builtin_bit_cast(float, static_cast<uint32_t>(127 + 1 - kBias - kMantissa) << 23);
    const Sums small = __builtin_convertvector(bits_as<Ints>(magnitude), Sums) * kScale;
    bits = magnitude < (1u << kMantissa) ? bits_as<Bits>(small) : bits;
    if constexpr (kFinite) {
      bits = magnitude == kTop ? Bits{} + 0x7fc00000u : bits;
    } else {
      bits = magnitude >= kInfinity ? bits | 0x7f800000u : bits;
    }
    return bits_as<Sums>(bits | sign);
  }

  static KEEL_INLINE Codes encode(Sums sums) {
    const Bits all = bits_as<Bits>(sums);
    const Bits sign = (all >> kSignShift) & (kTop + 1);
    const Bits magnitude = all & 0x7fffffffu;
    const Bits odd = (magnitude >> kMantissaShift) & 1;
    const Bits normal = ((magnitude + ((1u << (kMantissaShift - 1)) - 1) + odd) >> kMantissaShift) -
                        (static_cast<uint32_t>(127 - kBias) << kMantissa);
    // Adding a float32 to a power of two with a last bit worth the smallest subnormal rounds the
    // float32 to a multiple of the smallest subnormal.
    constexpr uint32_t kShifterBits = static_cast<uint32_t>(127 + 1 - kBias + kMantissaShift) << 23;
    const Sums shifted = bits_as<Sums>(magnitude) + __builtin_bit_cast(float, kShifterBits);
    const Bits subnormal = bits_as<Bits>(shifted) - kShifterBits;
    constexpr uint32_t kSmallestNormal = static_cast<uint32_t>(127 + 1 - kBias) << 23;
    // Infinity rounds to a code beyond the largest, like every overflow.
    Bits code = magnitude < kSmallestNormal ? subnormal : normal;
    constexpr uint32_t kOver = kFinite ? kTop - 1 : kInfinity;
    code = code > kOver ? Bits{} + kOver : code;
    code = magnitude > 0x7f800000u ? Bits{} + kTop : code;
    return narrow<Codes, Bits>(code | sign);
  }
};

#if defined(__F16C__)
struct Float16 : InFloat32 {
  using Stored = uint16_t;
  using Codes = Vector<uint16_t, kLanes>;

  static KEEL_INLINE Sums decode(Codes codes) {
#if KEEL_VECTOR_BYTES == 64
    return bits_as<Sums>(_mm512_maskz_cvtph_ps(kAllLanes, bits_as<__m256i>(codes)));
#else
    return bits_as<Sums>(_mm256_cvtph_ps(bits_as<__m128i>(codes)));
#endif
  }
  // The instruction encodes NaN as 0x7e00, float_types.hpp as 0x7fff.
  static KEEL_INLINE Codes encode(Sums sums) {
    constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
#if KEEL_VECTOR_BYTES == 64
    const auto codes =
        bits_as<Codes>(_mm512_maskz_cvtps_ph(kAllLanes, bits_as<__m512>(sums), kNearest));
#else
    const auto codes = bits_as<Codes>(_mm256_cvtps_ph(bits_as<__m256>(sums), kNearest));
#endif
    return (codes & 0x7fff) > 0x7c00 ? codes | 0x03ff : codes;
  }
};
#else
using Float16 = SmallFloat<uint16_t, 5, 10, false>;
#endif
using Float8E4m3 = SmallFloat<uint8_t, 4, 3, true>;
#if defined(__F16C__)
// Upper half of a float16. Encoding by way of float16 would round twice.
struct Float8E5m2 : SmallFloat<uint8_t, 5, 2, false> {
  static KEEL_INLINE Sums decode(Codes codes) {
    return Float16::decode(narrow<Float16::Codes, Bits>(widen<Codes, Bits>(codes) << 8));
  }
};
#else
using Float8E5m2 = SmallFloat<uint8_t, 5, 2, false>;
#endif

}  // namespace
}  // namespace keel

#endif  // KEEL_COLLECTIVES_REDUCE_REDUCE_VECTOR_H_
