// SPDX-License-Identifier: Apache-2.0
// Copies parts of matrices into the order in which products read them. Compiled once per
// instruction set: included by gemm.cc after <hwy/highway.h>.
#if defined(KEEL_BACKENDS_CPU_GEMM_GEMM_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KEEL_BACKENDS_CPU_GEMM_GEMM_PACK_INL_H_
#undef KEEL_BACKENDS_CPU_GEMM_GEMM_PACK_INL_H_
#else
#define KEEL_BACKENDS_CPU_GEMM_GEMM_PACK_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace keel::cpu::gemm {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// to[i] = from[i] for |count| elements, at most one vector.
HWY_INLINE void copy_part(const float* from, size_t count, float* to) {
  const hn::ScalableTag<float> d;
  const auto part = hn::FirstN(d, count);
  hn::BlendedStore(hn::MaskedLoad(part, d, from), part, d, to);
}

// Packs groups of |width| columns, each group row after row: to[g * depth * width + l * width + i]
// = from[l * stride + g * width + i]. Works on kAtOnce groups at a time, so that reads are
// contiguous and writes fall into few cache sets.
HWY_INLINE void pack_rows(const float* from, int64_t stride, int64_t depth, int64_t groups,
                          int64_t width, float* to) {
  constexpr int64_t kAtOnce = 8;
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t first = 0; first < groups; first += kAtOnce) {
    const int64_t end = std::min(first + kAtOnce, groups);
    for (int64_t l = 0; l < depth; ++l) {
      for (int64_t g = first; g < end; ++g) {
        const float* const source = from + l * stride + g * width;
        float* const target = to + (g * depth + l) * width;
        int64_t i = 0;
        for (; i + lanes <= width; i += lanes) hn::StoreU(hn::LoadU(d, source + i), d, target + i);
        if (i < width) copy_part(source + i, static_cast<size_t>(width - i), target + i);
      }
    }
  }
}

#if HWY_TARGET == HWY_SCALAR
constexpr int64_t kTurned = 1;

HWY_INLINE void turn(const float* const* lines, int64_t l, float* to, int64_t) {
  *to = lines[0][l];
}
#else
// Elements of a line that are transposed at once, with as many lines as a vector has lanes.
constexpr int64_t kTurned = 4;

// Elements l to l + 3 of every fourth line.
template <class D>
HWY_INLINE hn::Vec<D> load_blocks(D d, const float* const* lines, int64_t l) {
  if constexpr (hn::MaxLanes(D()) <= 4) {
    return hn::LoadU(d, lines[0] + l);
  } else {
    const hn::Half<D> half;
    constexpr auto kHalf = static_cast<int64_t>(hn::MaxLanes(D())) / 2;
    return hn::Combine(d, load_blocks(half, lines + kHalf, l), load_blocks(half, lines, l));
  }
}

// to[q * step + i] = lines[i][l + q].
HWY_INLINE void turn(const float* const* lines, int64_t l, float* to, int64_t step) {
  const hn::ScalableTag<float> d;
  const auto line0 = load_blocks(d, lines, l);
  const auto line1 = load_blocks(d, lines + 1, l);
  const auto line2 = load_blocks(d, lines + 2, l);
  const auto line3 = load_blocks(d, lines + 3, l);
  const auto low02 = hn::InterleaveLower(d, line0, line2);
  const auto low13 = hn::InterleaveLower(d, line1, line3);
  const auto high02 = hn::InterleaveUpper(d, line0, line2);
  const auto high13 = hn::InterleaveUpper(d, line1, line3);
  hn::StoreU(hn::InterleaveLower(d, low02, low13), d, to);
  hn::StoreU(hn::InterleaveUpper(d, low02, low13), d, to + step);
  hn::StoreU(hn::InterleaveLower(d, high02, high13), d, to + 2 * step);
  hn::StoreU(hn::InterleaveUpper(d, high02, high13), d, to + 3 * step);
}
#endif

// Packs one group of |width| lines: to[l * width + i] = from[i * stride + l], for ascending l.
// Writes up to one vector beyond the group. Lines from |count| on repeat the last line.
HWY_INLINE void pack_lines(const float* from, int64_t stride, int64_t count, int64_t depth,
                           int64_t width, float* to) {
  constexpr auto kLines = static_cast<int64_t>(HWY_LANES(float));
  // The elements written beyond a row are overwritten by the next row, or by the next group after
  // the last row.
  const float* lines[kLines];
  const int64_t whole = depth / kTurned * kTurned;
  for (int64_t first = 0; first < width; first += kLines) {
    for (int64_t i = 0; i < kLines; ++i) {
      lines[i] = from + std::min(first + i, count - 1) * stride;
    }
    for (int64_t l = 0; l < whole; l += kTurned) turn(lines, l, to + l * width + first, width);
    for (int64_t l = whole; l < depth; ++l) {
      for (int64_t i = 0; i < kLines; ++i) to[l * width + first + i] = lines[i][l];
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace keel::cpu::gemm
HWY_AFTER_NAMESPACE();

#endif  // KEEL_BACKENDS_CPU_GEMM_GEMM_PACK_INL_H_
