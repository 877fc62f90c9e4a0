// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/kernels_softmax.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which compiles this file once for each target.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/kernels/exp-inl.h"
#include "backends/cpu/kernels/kernels_norm.h"
#include "backends/cpu/kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::cpu::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr float kHidden = -std::numeric_limits<float>::infinity();

// scale * x for a block before |visible|; minus infinity for masked elements.
HWY_INLINE void load_exponents(const SoftmaxRow& row, const ReadFloats& x, int64_t first,
                               int64_t width, float* out) {
  const float* const from = x.block(first, width, out);
  const float scale = row.scale;
  for_each_vector(width, [=](auto d, int64_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(d, from + i), hn::Set(d, scale)), d, out + i);
  });
  if (row.mask == nullptr) return;
  const uint8_t* const mask = row.mask + first;
  for (int64_t i = 0; i < width; ++i) out[i] = mask[i] != 0 ? kHidden : out[i];
}

// exp(value - top), for |value| up to |top|.
template <class D>
HWY_INLINE hn::Vec<D> exp_below(D d, hn::Vec<D> value, float top) {
  return exp_in_range(d, hn::Sub(value, hn::Set(d, top)));
}

// Processes the elements before |row.visible|, at most kShortRow, with one exponential each: the
// exponentials of the sum are kept. Returns false, with nothing written, if there is NaN, which
// must not spread to the whole row. Memory would idle during the exponentials, and hardware
// prefetchers stop at the end of a page, so y and the |next| row of x are prefetched explicitly.
constexpr int64_t kShortRow = 4096;  // 16 KiB of the first-level cache
HWY_INLINE bool softmax_of_short_row(const SoftmaxRow& row, const ReadFloats& x,
                                     const ReadFloats& next, const WrittenFloats& y) {
  float values[kShortRow];
  float top = std::numeric_limits<float>::lowest();
  for (int64_t first = 0; first < row.visible; first += kBlock) {
    const int64_t width = std::min(kBlock, row.visible - first);
    load_exponents(row, x, first, width, values + first);
    top = std::max(top, vector_largest(values + first, width));
  }
  double sum = 0;
  for (int64_t first = 0; first < row.visible; first += kBlock) {
    float* const block = values + first;
    const int64_t width = std::min(kBlock, row.visible - first);
    sum += static_cast<double>(vector_sum(width, [&](auto d, int64_t i) HWY_ATTR {
      y.prefetch(first + i);
      next.prefetch(first + i);
      const auto value = exp_below(d, hn::LoadU(d, block + i), top);
      hn::StoreU(value, d, block + i);
      return value;
    }));
  }
  if (std::isnan(sum)) return false;
  const float factor = sum == 0 ? 0.0f : static_cast<float>(1 / sum);
  for (int64_t first = 0; first < row.visible; first += kBlock) {
    const float* const from = values + first;
    const int64_t width = std::min(kBlock, row.visible - first);
    float* const to = y.block(first, values + first);
    for_each_vector(width, [=](auto d, int64_t i) HWY_ATTR {
      hn::StoreU(hn::Mul(hn::LoadU(d, from + i), hn::Set(d, factor)), d, to + i);
    });
    y.finish(first, width, to);
  }
  return true;
}

HWY_INLINE void softmax_of_row(const SoftmaxRow& row, const ReadFloats& x, const WrittenFloats& y) {
  float exponents[kBlock];
  // A number below all others, so that a fully masked row has the sum 0.
  float top = std::numeric_limits<float>::lowest();
  double sum = 0;  // of exp(exponent - top)
  for (int64_t first = 0; first < row.visible; first += kBlock) {
    const int64_t width = std::min(kBlock, row.visible - first);
    load_exponents(row, x, first, width, exponents);
    const float block_top = vector_largest(exponents, width);
    if (block_top > top) {
      sum *= std::exp(static_cast<double>(top) - static_cast<double>(block_top));
      top = block_top;
    }
    sum += static_cast<double>(vector_sum(width, [&](auto d, int64_t i) HWY_ATTR {
      return exp_below(d, hn::LoadU(d, exponents + i), top);
    }));
  }
  const float factor = sum == 0 ? 0.0f : static_cast<float>(1 / sum);
  for (int64_t first = 0; first < row.visible; first += kBlock) {
    const int64_t width = std::min(kBlock, row.visible - first);
    load_exponents(row, x, first, width, exponents);
    float* const to = y.block(first, exponents);
    for_each_vector(width, [&](auto d, int64_t i) HWY_ATTR {
      const auto exponent = hn::LoadU(d, exponents + i);
      const auto value = hn::Mul(exp_below(d, exponent, top), hn::Set(d, factor));
      // Not 0 * factor, which is NaN if another element is NaN.
      const auto is_hidden = hn::Eq(exponent, hn::Set(d, kHidden));
      hn::StoreU(hn::IfThenZeroElse(is_hidden, value), d, to + i);
    });
    y.finish(first, width, to);
  }
}

void softmax(const SoftmaxRow& row, const ReadFloats& x, const WrittenFloats& y, int64_t count) {
  const bool is_done = row.visible <= kShortRow && softmax_of_short_row(row, x, x.from(count), y);
  if (!is_done) softmax_of_row(row, x, y);
  float zeroes[kBlock];
  for (int64_t first = row.visible; first < count; first += kBlock) {
    const int64_t width = std::min(kBlock, count - first);
    float* const to = y.block(first, zeroes);
    std::fill_n(to, width, 0.0f);
    y.finish(first, width, to);
  }
}

void softmax_backward(float scale, const ReadFloats& y, const ReadFloats& dy,
                      const WrittenFloats& dx, int64_t count) {
  float y_room[kBlock], dy_room[kBlock];
  double sum = 0;
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t width = std::min(kBlock, count - first);
    const float* const value = y.block(first, width, y_room);
    const float* const gradient = dy.block(first, width, dy_room);
    sum += static_cast<double>(vector_sum(width, [&, value, gradient](auto d, int64_t i) HWY_ATTR {
      dx.prefetch(first + i);
      return hn::Mul(hn::LoadU(d, value + i), hn::LoadU(d, gradient + i));
    }));
  }
  const auto dot = static_cast<float>(sum);
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t width = std::min(kBlock, count - first);
    const float* const value = y.block(first, width, y_room);
    const float* const gradient = dy.block(first, width, dy_room);
    float* const to = dx.block(first, dy_room);
    for_each_vector(width, [=](auto d, int64_t i) HWY_ATTR {
      const auto centered = hn::Sub(hn::LoadU(d, gradient + i), hn::Set(d, dot));
      const auto scaled = hn::Mul(hn::Set(d, scale), hn::LoadU(d, value + i));
      hn::StoreU(hn::Mul(scaled, centered), d, to + i);
    });
    dx.finish(first, width, to);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace keel::cpu::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel::cpu::kernels {

HWY_EXPORT(softmax);
HWY_EXPORT(softmax_backward);

void softmax(const SoftmaxRow& row, const ReadFloats& x, const WrittenFloats& y, int64_t count) {
  HWY_DYNAMIC_DISPATCH(softmax)(row, x, y, count);
}

void softmax_backward(float scale, const ReadFloats& y, const ReadFloats& dy,
                      const WrittenFloats& dx, int64_t count) {
  HWY_DYNAMIC_DISPATCH(softmax_backward)(scale, y, dy, dx, count);
}

}  // namespace keel::cpu::kernels
#endif  // HWY_ONCE
