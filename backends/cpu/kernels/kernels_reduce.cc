// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/kernels_reduce.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which compiles this file once for each target.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/kernels/exp-inl.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::cpu::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Elements per float32 sum of a block, which is then added in float64: the error grows with a
// block's few dozen additions per lane, not with the length of the array.
constexpr int64_t kBlock = 512;

// The sum of term(vector of x) over a block.
template <class D, class Term>
HWY_INLINE float block_sum(D d, const float* x, int64_t count, Term term) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto even = hn::Zero(d);
  auto odd = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    even = hn::Add(even, term(d, hn::LoadU(d, x + i)));
    odd = hn::Add(odd, term(d, hn::LoadU(d, x + i + lanes)));
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
  const hn::CappedTag<float, 1> one;
  for (; i < count; ++i) sum += hn::GetLane(term(one, hn::LoadU(one, x + i)));
  return sum;
}

template <class Term>
HWY_INLINE double blocked_sum(const float* x, int64_t count, Term term) {
  const hn::ScalableTag<float> d;
  double sum = 0;
  for (int64_t i = 0; i < count; i += kBlock) {
    sum += static_cast<double>(block_sum(d, x + i, std::min(kBlock, count - i), term));
  }
  return sum;
}

struct Identity {
  template <class D, class V>
  HWY_INLINE V operator()(D, V value) const {
    return value;
  }
};

// exp(x - shift).
struct ShiftedExp {
  float shift;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V value) const {
    return exp(d, hn::Sub(value, hn::Set(d, shift)));
  }
};
struct ShiftedTwiceExp {
  float shift, rest;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V value) const {
    return exp(d, hn::Sub(hn::Sub(value, hn::Set(d, shift)), hn::Set(d, rest)));
  }
};
struct Square {
  template <class D, class V>
  HWY_INLINE V operator()(D, V value) const {
    return hn::Mul(value, value);
  }
};

double sum_f32(const float* x, int64_t count) {
  return blocked_sum(x, count, Identity());
}

double sum_of_squares_f32(const float* x, int64_t count) {
  return blocked_sum(x, count, Square());
}

double sum_exp_f32(const float* x, float shift, int64_t count) {
  // Minus infinity minus itself would be NaN.
  return blocked_sum(x, count, ShiftedExp{std::max(shift, std::numeric_limits<float>::lowest())});
}

void sum_rows_f32(const float* x, int64_t rows, int64_t columns, int64_t stride, float* y) {
  constexpr int64_t kRows = 32;
  constexpr int64_t kColumns = 256;
  for (int64_t j = 0; j < columns; j += kColumns) {
    const int64_t width = std::min(kColumns, columns - j);
    double total[kColumns] = {};
    for (int64_t i = 0; i < rows; i += kRows) {
      float partial[kColumns] = {};
      const int64_t end = std::min(i + kRows, rows);
      for (int64_t row = i; row < end; ++row) {
        const float* const from = x + row * stride + j;
        for (int64_t k = 0; k < width; ++k) partial[k] += from[k];
      }
      for (int64_t k = 0; k < width; ++k) total[k] += static_cast<double>(partial[k]);
    }
    for (int64_t k = 0; k < width; ++k) y[j + k] = static_cast<float>(total[k]);
  }
}

double dot_f32(const float* a, const float* b, int64_t count) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  // Four partial sums, so that a product need not wait for the previous ones.
  auto sum0 = hn::Zero(d);
  auto sum1 = sum0;
  auto sum2 = sum0;
  auto sum3 = sum0;
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    sum0 = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum0);
    sum1 = hn::MulAdd(hn::LoadU(d, a + i + lanes), hn::LoadU(d, b + i + lanes), sum1);
    sum2 = hn::MulAdd(hn::LoadU(d, a + i + 2 * lanes), hn::LoadU(d, b + i + 2 * lanes), sum2);
    sum3 = hn::MulAdd(hn::LoadU(d, a + i + 3 * lanes), hn::LoadU(d, b + i + 3 * lanes), sum3);
  }
  for (; i + lanes <= count; i += lanes) {
    sum0 = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum0);
  }
  const auto sums = hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3));
  auto sum = static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sums)));
  for (; i < count; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

float largest_f32(const float* x, int64_t count) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  float result = -std::numeric_limits<float>::infinity();
  // By comparisons, which are false for NaN; a maximum could return NaN.
  auto top = hn::Set(d, result);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto value = hn::LoadU(d, x + i);
    top = hn::IfThenElse(hn::Gt(value, top), value, top);
  }
  result = hn::GetLane(hn::MaxOfLanes(d, top));
  for (; i < count; ++i) {
    if (x[i] > result) result = x[i];
  }
  return result;
}

double log_sum_exp_f32(const float* x, int64_t count) {
  // Memory transfers should continue during the exponentials: works block by block, relative to the
  // largest value so far, and prefetches the next block (1.25 times as fast as without). A row of
  // minus infinities alone adds nothing: minus infinity minus itself would be NaN.
  float top = std::numeric_limits<float>::lowest();
  double sum = 0;
  for (int64_t first = 0; first < count; first += kBlock) {
    const float* const block = x + first;
    const int64_t width = std::min(kBlock, count - first);
    const float block_top = vector_largest(block, width);
    if (block_top > top) {
      sum *= std::exp(static_cast<double>(top) - static_cast<double>(block_top));
      top = block_top;
    }
    // With NaN in the block the sum is NaN, whatever lies above |top|.
    sum += static_cast<double>(vector_sum(width, [=](auto d, int64_t i) HWY_ATTR {
      __builtin_prefetch(block + kBlock + i);
      return exp_in_range(d, hn::Sub(hn::LoadU(d, block + i), hn::Set(d, top)));
    }));
  }
  return static_cast<double>(top) + std::log(sum);
}

// out[j] = scale * shifted_exp(x[j]).
template <class Exp>
HWY_INLINE void scaled_exponentials(const float* x, Exp shifted_exp, float scale, float* out,
                                    int64_t count) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::Mul(hn::Set(d, scale), shifted_exp(d, hn::LoadU(d, x + i))), d, out + i);
  }
  const hn::CappedTag<float, 1> one;
  for (; i < count; ++i) {
    hn::StoreU(hn::Mul(hn::Set(one, scale), shifted_exp(one, hn::LoadU(one, x + i))), one, out + i);
  }
}

void scaled_softmax_f32(const float* x, const LogSum& log_sum, float scale, float* out,
                        int64_t count) {
  if (log_sum.rest == 0) {
    scaled_exponentials(x, ShiftedExp{log_sum.value}, scale, out, count);
  } else {
    scaled_exponentials(x, ShiftedTwiceExp{log_sum.value, log_sum.rest}, scale, out, count);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace keel::cpu::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel::cpu::kernels {

HWY_EXPORT(sum_f32);
HWY_EXPORT(sum_rows_f32);
HWY_EXPORT(log_sum_exp_f32);
HWY_EXPORT(scaled_softmax_f32);
HWY_EXPORT(sum_of_squares_f32);
HWY_EXPORT(dot_f32);
HWY_EXPORT(largest_f32);
HWY_EXPORT(sum_exp_f32);

double sum_f32(const float* x, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(sum_f32)(x, count);
}

void sum_rows_f32(const float* x, int64_t rows, int64_t columns, int64_t stride, float* y) {
  HWY_DYNAMIC_DISPATCH(sum_rows_f32)(x, rows, columns, stride, y);
}

double log_sum_exp_f32(const float* x, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(log_sum_exp_f32)(x, count);
}

void scaled_softmax_f32(const float* x, const LogSum& log_sum, float scale, float* out,
                        int64_t count) {
  HWY_DYNAMIC_DISPATCH(scaled_softmax_f32)(x, log_sum, scale, out, count);
}

double sum_of_squares_f32(const float* x, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(sum_of_squares_f32)(x, count);
}

double dot_f32(const float* a, const float* b, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(dot_f32)(a, b, count);
}

float largest_f32(const float* x, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(largest_f32)(x, count);
}

double sum_exp_f32(const float* x, float shift, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(sum_exp_f32)(x, shift, count);
}

}  // namespace keel::cpu::kernels
#endif  // HWY_ONCE
