// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/kernels_planes.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which compiles this file once for each target.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/families.h"
#include "backends/cpu/kernels/philox-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::cpu::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kLine = 64;  // bytes of a line of the cache, the largest vector

// Moves a square of |kSide| lines of |kSide| elements into its transpose.
template <typename Unit>
constexpr int64_t kSide = 1;
template <typename Unit>
HWY_INLINE void transpose_square(const Unit* from, int64_t, Unit* to, int64_t) {
  *to = *from;
}
#if HWY_TARGET != HWY_SCALAR
template <>
constexpr int64_t kSide<uint32_t> = 4;
HWY_INLINE void transpose_square(const uint32_t* from, int64_t from_step, uint32_t* to,
                                 int64_t to_step) {
  const hn::FixedTag<uint32_t, 4> d;
  const hn::FixedTag<uint64_t, 2> pairs;
  const auto line0 = hn::LoadU(d, from);
  const auto line1 = hn::LoadU(d, from + from_step);
  const auto line2 = hn::LoadU(d, from + 2 * from_step);
  const auto line3 = hn::LoadU(d, from + 3 * from_step);
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, line0, line1));
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, line2, line3));
  const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, line0, line1));
  const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, line2, line3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), d, to);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), d, to + to_step);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), d, to + 2 * to_step);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), d, to + 3 * to_step);
}

// Interleaves lines i and i + 4 three times: the bits of a line's number move into the place in
// the line.
template <>
constexpr int64_t kSide<uint16_t> = 8;
HWY_INLINE void transpose_square(const uint16_t* from, int64_t from_step, uint16_t* to,
                                 int64_t to_step) {
  const hn::FixedTag<uint16_t, 8> d;
  using Line = hn::Vec<decltype(d)>;
  Line lines[8];
  Line next[8];
  for (int64_t i = 0; i < 8; ++i) lines[i] = hn::LoadU(d, from + i * from_step);
  for (int step = 0; step < 3; ++step) {
    for (int64_t i = 0; i < 4; ++i) {
      next[2 * i] = hn::InterleaveLower(d, lines[i], lines[i + 4]);
      next[2 * i + 1] = hn::InterleaveUpper(d, lines[i], lines[i + 4]);
    }
    for (int64_t i = 0; i < 8; ++i) lines[i] = next[i];
  }
  for (int64_t i = 0; i < 8; ++i) hn::StoreU(lines[i], d, to + i * to_step);
}
#endif

// Prefetches |count| elements: of the plane that a tile reads next. No prefetcher of the processor
// follows the 64 to 128 lines of memory that a tile walks along beside each other.
template <typename Unit>
HWY_INLINE void prefetch(const Unit* from, int64_t count) {
  constexpr int64_t kUnits = kLine / static_cast<int64_t>(sizeof(Unit));
  for (int64_t i = 0; i < count; i += kUnits) hwy::Prefetch(from + i);
}

// to[r * to_step + c] = from[c * from_step + r]. |is_ahead|: prefetches the plane that follows.
template <bool is_ahead, typename Unit>
HWY_INLINE void transpose(const Unit* from, int64_t from_step, Unit* to, int64_t to_step,
                          int64_t rows, int64_t columns) {
  constexpr int64_t kStep = kSide<Unit>;
  const int64_t squares = columns / kStep * kStep;
  const int64_t height = rows / kStep * kStep;
  for (int64_t c = 0; c < squares; c += kStep) {
    for (int64_t i = c; is_ahead && i < c + kStep; ++i) prefetch(from + i * from_step + rows, rows);
    for (int64_t r = 0; r < height; r += kStep) {
      transpose_square(from + c * from_step + r, from_step, to + r * to_step + c, to_step);
    }
    for (int64_t r = height; r < rows; ++r) {
      for (int64_t i = c; i < c + kStep; ++i) to[r * to_step + i] = from[i * from_step + r];
    }
  }
  for (int64_t c = squares; c < columns; ++c) {
    for (int64_t r = 0; r < rows; ++r) to[r * to_step + c] = from[c * from_step + r];
  }
}

template <typename Unit>
void gather_units(const void* source, const Plane& plane, void* target) {
  const auto* const from = static_cast<const Unit*>(source);
  auto* const to = static_cast<Unit*>(target);
  const int64_t columns = plane.columns;
  const int64_t step = plane.column_step;
  if (step > 1 && plane.row_step == 1 && plane.rows > 1) {
    transpose<true>(from, step, to, columns, plane.rows, columns);
    return;
  }
  for (int64_t r = 0; r < plane.rows; ++r) {
    const Unit* const row = from + r * plane.row_step;
    Unit* const out = to + r * columns;
    if (step == 1) {
      if (plane.rows > 1) prefetch(row + plane.rows * plane.row_step, columns);
      std::memcpy(out, row, static_cast<size_t>(columns) * sizeof(Unit));
    } else if (step == 0) {
      std::fill_n(out, columns, *row);
    } else if (step == 2) {
      for (int64_t c = 0; c < columns; ++c) out[c] = row[c * 2];
    } else {
      for (int64_t c = 0; c < columns; ++c) out[c] = row[c * step];
    }
  }
}

void stream_bytes(const void* from, void* to, int64_t bytes) {
  int64_t streamed = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<uint8_t> d;
  const auto* const source = static_cast<const uint8_t*>(from);
  auto* const target = static_cast<uint8_t*>(to);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (reinterpret_cast<uintptr_t>(to) % kLine == 0) streamed = bytes / kLine * kLine;
  for (int64_t i = 0; i < streamed; i += lanes) {
    hn::Stream(hn::LoadU(d, source + i), d, target + i);
  }
#endif
  std::memcpy(static_cast<char*>(to) + streamed, static_cast<const char*>(from) + streamed,
              static_cast<size_t>(bytes - streamed));
}

template <typename Unit>
void scatter_units(const void* source, void* target, const Plane& plane, bool past_caches) {
  const auto* const from = static_cast<const Unit*>(source);
  auto* const to = static_cast<Unit*>(target);
  const int64_t columns = plane.columns;
  const int64_t step = plane.column_step;
  if (step > 1 && plane.row_step == 1 && plane.rows > 1) {
    transpose<false>(from, columns, to, step, columns, plane.rows);
    return;
  }
  for (int64_t r = 0; r < plane.rows; ++r) {
    const Unit* const row = from + r * columns;
    Unit* const out = to + r * plane.row_step;
    if (step == 1 && past_caches) {
      stream_bytes(row, out, columns * static_cast<int64_t>(sizeof(Unit)));
    } else if (step == 1) {
      std::memcpy(out, row, static_cast<size_t>(columns) * sizeof(Unit));
    } else {
      for (int64_t c = 0; c < columns; ++c) out[c * step] = row[c];
    }
  }
}

void gather_plane(uint32_t size, const void* from, const Plane& plane, void* to) {
  switch (size) {
    case 1:
      return gather_units<uint8_t>(from, plane, to);
    case 2:
      return gather_units<uint16_t>(from, plane, to);
    case 4:
      return gather_units<uint32_t>(from, plane, to);
    default:
      return gather_units<uint64_t>(from, plane, to);
  }
}

void scatter_plane(uint32_t size, const void* from, void* to, const Plane& plane,
                   bool past_caches) {
  switch (size) {
    case 1:
      return scatter_units<uint8_t>(from, to, plane, past_caches);
    case 2:
      return scatter_units<uint16_t>(from, to, plane, past_caches);
    case 4:
      return scatter_units<uint32_t>(from, to, plane, past_caches);
    default:
      return scatter_units<uint64_t>(from, to, plane, past_caches);
  }
}

void random_words(uint64_t key, uint64_t counter, int64_t counters, uint32_t* words) {
  const hn::ScalableTag<uint64_t> d;
  const auto drawn = static_cast<int64_t>(philox_counters(d));
  for (int64_t i = 0; i < counters; i += drawn) {
    philox(d, counter + static_cast<uint64_t>(i), key, words + 4 * i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace keel::cpu::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel::cpu::kernels {

HWY_EXPORT(gather_plane);
HWY_EXPORT(scatter_plane);
HWY_EXPORT(stream_bytes);
HWY_EXPORT(random_words);

void gather_plane(uint32_t size, const void* from, const Plane& plane, void* to) {
  HWY_DYNAMIC_DISPATCH(gather_plane)(size, from, plane, to);
}

void scatter_plane(uint32_t size, const void* from, void* to, const Plane& plane,
                   bool past_caches) {
  HWY_DYNAMIC_DISPATCH(scatter_plane)(size, from, to, plane, past_caches);
}

void stream_bytes(const void* from, void* to, int64_t bytes) {
  HWY_DYNAMIC_DISPATCH(stream_bytes)(from, to, bytes);
}

void finish_streaming() {
  hwy::FlushStream();
}

void random_words(uint64_t key, uint64_t counter, int64_t counters, uint32_t* words) {
  HWY_DYNAMIC_DISPATCH(random_words)(key, counter, counters, words);
}

}  // namespace keel::cpu::kernels
#endif  // HWY_ONCE
