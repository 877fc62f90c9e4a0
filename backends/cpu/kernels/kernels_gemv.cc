// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/kernels_gemv.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which compiles this file once for each target.
#include <hwy/highway.h>

#include <algorithm>

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::cpu::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Elements per float32 sum, which is then added in float64: some 64 additions per lane of 16.
constexpr int64_t kBlock = 2048;

// Prefetches the data that two vectors of a line from |at| on will be a little later: hardware
// prefetchers stop at the end of a page. From 32.4 to 33.9 GB/s on two cores of an Intel Xeon with
// lines of 16 KiB.
template <class Element>
HWY_INLINE void ask_ahead(const Element* at) {
  constexpr size_t kAhead = 640;
  constexpr size_t kLine = 64;
  const hn::ScalableTag<float> d;
  const auto* const bytes = reinterpret_cast<const char*>(at) + kAhead;
  for (size_t i = 0; i < 2 * hn::Lanes(d) * sizeof(Element); i += kLine)
    __builtin_prefetch(bytes + i);
}

// Multiplies the elements [begin, end) of four lines. Each line has two partial sums, so that a
// product need not wait for the previous one; as named variables, because vectors of some targets
// cannot be array elements.
template <class Element>
HWY_INLINE void dot_block(const Element* const* lines, int64_t begin, int64_t end, const float* x,
                          double* sums) {
  static_assert(kLinesDotted == 4);
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto even0 = hn::Zero(d);
  auto even1 = even0;
  auto even2 = even0;
  auto even3 = even0;
  auto odd0 = even0;
  auto odd1 = even0;
  auto odd2 = even0;
  auto odd3 = even0;
  int64_t i = begin;
  for (; i + 2 * lanes <= end; i += 2 * lanes) {
    for (int64_t n = 0; n < kLinesDotted; ++n) ask_ahead(lines[n] + i);
    const auto x_even = hn::LoadU(d, x + i);
    const auto x_odd = hn::LoadU(d, x + i + lanes);
    even0 = hn::MulAdd(load_floats(d, lines[0] + i), x_even, even0);
    odd0 = hn::MulAdd(load_floats(d, lines[0] + i + lanes), x_odd, odd0);
    even1 = hn::MulAdd(load_floats(d, lines[1] + i), x_even, even1);
    odd1 = hn::MulAdd(load_floats(d, lines[1] + i + lanes), x_odd, odd1);
    even2 = hn::MulAdd(load_floats(d, lines[2] + i), x_even, even2);
    odd2 = hn::MulAdd(load_floats(d, lines[2] + i + lanes), x_odd, odd2);
    even3 = hn::MulAdd(load_floats(d, lines[3] + i), x_even, even3);
    odd3 = hn::MulAdd(load_floats(d, lines[3] + i + lanes), x_odd, odd3);
  }
  const float whole[kLinesDotted] = {
      hn::GetLane(hn::SumOfLanes(d, hn::Add(even0, odd0))),
      hn::GetLane(hn::SumOfLanes(d, hn::Add(even1, odd1))),
      hn::GetLane(hn::SumOfLanes(d, hn::Add(even2, odd2))),
      hn::GetLane(hn::SumOfLanes(d, hn::Add(even3, odd3))),
  };
  const hn::CappedTag<float, 1> one;
  for (int64_t n = 0; n < kLinesDotted; ++n) {
    sums[n] += static_cast<double>(whole[n]);
    for (int64_t j = i; j < end; ++j) {
      const float element = hn::GetLane(load_floats(one, lines[n] + j));
      sums[n] += static_cast<double>(element) * static_cast<double>(x[j]);
    }
  }
}

// The last line stands in for absent lines, whose sums are discarded.
template <class Element>
void dot(const void* const* lines, int64_t line_count, const float* x, int64_t count,
         double* sums) {
  const Element* of[kLinesDotted];
  double of_all[kLinesDotted] = {};
  for (int64_t n = 0; n < kLinesDotted; ++n) {
    of[n] = static_cast<const Element*>(lines[std::min(n, line_count - 1)]);
  }
  for (int64_t i = 0; i < count; i += kBlock) {
    dot_block(of, i, std::min(i + kBlock, count), x, of_all);
  }
  for (int64_t n = 0; n < line_count; ++n) sums[n] += of_all[n];
}

template <int Lines, class Element>
void add(const void* const* lines, int64_t rows, const float* factors, int64_t factor_row, float* y,
         int64_t y_row, int64_t count) {
  // Copies of the pointers: the compiler knows that writes to y do not change the copies.
  const Element* of[Lines];
  for (int n = 0; n < Lines; ++n) of[n] = static_cast<const Element*>(lines[n]);
  for_each_vector(count, [=](auto d, int64_t i) HWY_ATTR {
    hn::Vec<decltype(d)> line[Lines];
    HWY_UNROLL(8)
    for (int n = 0; n < Lines; ++n) line[n] = load_floats(d, of[n] + i);
    for (int64_t r = 0; r < rows; ++r) {
      auto sum = hn::LoadU(d, y + r * y_row + i);
      HWY_UNROLL(8)
      for (int n = 0; n < Lines; ++n) {
        sum = hn::MulAdd(line[n], hn::Set(d, factors[r * factor_row + n]), sum);
      }
      hn::StoreU(sum, d, y + r * y_row + i);
    }
  });
}

void dot_lines(keel_dtype dtype, const void* const* lines, int64_t line_count, const float* x,
               int64_t count, double* sums) {
  return dtype == KEEL_FLOAT32 ? dot<float>(lines, line_count, x, count, sums)
                               : dot<bfloat16_t>(lines, line_count, x, count, sums);
}

template <class Element>
void add_some(const void* const* lines, int64_t line_count, int64_t rows, const float* factors,
              int64_t factor_row, float* y, int64_t y_row, int64_t count) {
  if (line_count == kLinesAdded) {
    return add<kLinesAdded, Element>(lines, rows, factors, factor_row, y, y_row, count);
  }
  for (int64_t n = 0; n < line_count; ++n) {
    add<1, Element>(lines + n, rows, factors + n, factor_row, y, y_row, count);
  }
}

void add_lines(keel_dtype dtype, const void* const* lines, int64_t line_count, int64_t rows,
               const float* factors, int64_t factor_row, float* y, int64_t y_row, int64_t count) {
  const auto add_of = dtype == KEEL_FLOAT32 ? add_some<float> : add_some<bfloat16_t>;
  add_of(lines, line_count, rows, factors, factor_row, y, y_row, count);
}

}  // namespace HWY_NAMESPACE
}  // namespace keel::cpu::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel::cpu::kernels {

HWY_EXPORT(dot_lines);
HWY_EXPORT(add_lines);

void dot_lines(keel_dtype dtype, const void* const* lines, int64_t line_count, const float* x,
               int64_t count, double* sums) {
  HWY_DYNAMIC_DISPATCH(dot_lines)(dtype, lines, line_count, x, count, sums);
}

void add_lines(keel_dtype dtype, const void* const* lines, int64_t line_count, int64_t rows,
               const float* factors, int64_t factor_row, float* y, int64_t y_row, int64_t count) {
  HWY_DYNAMIC_DISPATCH(add_lines)
  (dtype, lines, line_count, rows, factors, factor_row, y, y_row, count);
}

}  // namespace keel::cpu::kernels
#endif  // HWY_ONCE
