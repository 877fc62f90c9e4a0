#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels_norm.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which compiles this file once for each target.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "backends/cpu/kernels_norm.h"
#include "backends/cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::cpu::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Of a block, from |center|.
struct Deviations {
  float sum, sum_of_squares;
};

HWY_INLINE Deviations deviations(const float* x, float center, int64_t count) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto even = hn::Zero(d), odd = hn::Zero(d);
  auto even_squares = hn::Zero(d), odd_squares = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const auto first = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, center));
    const auto second = hn::Sub(hn::LoadU(d, x + i + lanes), hn::Set(d, center));
    even = hn::Add(even, first);
    odd = hn::Add(odd, second);
    even_squares = hn::MulAdd(first, first, even_squares);
    odd_squares = hn::MulAdd(second, second, odd_squares);
  }
  Deviations result = {hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd))),
                       hn::GetLane(hn::SumOfLanes(d, hn::Add(even_squares, odd_squares)))};
  for (; i < count; ++i) {
    const float deviation = x[i] - center;
    result.sum += deviation;
    result.sum_of_squares += deviation * deviation;
  }
  return result;
}

Moments moments(const ReadFloats& x, int64_t count) {
  double sum = 0;
  double squares = 0;  // of the deviations from the mean of what has been read
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t width = std::min(kBlock, count - first);
    const auto terms = static_cast<double>(width);
    float room[kBlock];
    const float* const block = x.block(first, width, room);
    const float block_sum =
        vector_sum(width, [=](auto d, int64_t i) HWY_ATTR { return hn::LoadU(d, block + i); });
    // Near the mean; how far off it is, the deviations themselves tell.
    const float center = block_sum / static_cast<float>(width);
    const Deviations deviation = deviations(block, center, width);
    const auto off = static_cast<double>(deviation.sum);
    const double exact_sum = std::isfinite(center) ? static_cast<double>(center) * terms + off
                                                   : static_cast<double>(block_sum);
    squares += static_cast<double>(deviation.sum_of_squares) - off * off / terms;
    if (first > 0) {
      const auto before = static_cast<double>(first);
      const double apart = exact_sum / terms - sum / before;
      squares += apart * apart * before * terms / (before + terms);
    }
    sum += exact_sum;
  }
  const auto total = static_cast<double>(count);
  // NaN stays; a rounding below 0 does not.
  return {sum / total, squares < 0 ? 0 : squares / total};
}

double mean_square(const ReadFloats& x, int64_t count) {
  double sum = 0;
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t width = std::min(kBlock, count - first);
    float room[kBlock];
    const float* const block = x.block(first, width, room);
    sum += static_cast<double>(vector_sum(width, [=](auto d, int64_t i) HWY_ATTR {
      const auto value = hn::LoadU(d, block + i);
      return hn::Mul(value, value);
    }));
  }
  return sum / static_cast<double>(count);
}

// The difference first: x and the mean may be large and close.
template <class D>
HWY_INLINE hn::Vec<D> normalised(D d, const NormFactors& factors, const float* x) {
  return hn::Mul(hn::Sub(hn::LoadU(d, x), hn::Set(d, factors.mean)), hn::Set(d, factors.rstd));
}

void normalise(const NormFactors& factors, const ReadFloats& x, const ReadFloats& gamma,
               const ReadFloats& beta, const WrittenFloats& y, int64_t count) {
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t width = std::min(kBlock, count - first);
    float x_room[kBlock], gamma_room[kBlock], beta_room[kBlock];
    const float* const from = x.block(first, width, x_room);
    const float* const factor = gamma.block(first, width, gamma_room);
    float* const to = y.block(first, x_room);
    if (beta) {
      const float* const offset = beta.block(first, width, beta_room);
      for_each_vector(width, [=](auto d, int64_t i) HWY_ATTR {
        hn::StoreU(hn::MulAdd(normalised(d, factors, from + i), hn::LoadU(d, factor + i),
                              hn::LoadU(d, offset + i)),
                   d, to + i);
      });
    } else {
      for_each_vector(width, [=](auto d, int64_t i) HWY_ATTR {
        hn::StoreU(hn::Mul(normalised(d, factors, from + i), hn::LoadU(d, factor + i)), d, to + i);
      });
    }
    y.finish(first, width, to);
  }
}

void normalise_backward(const NormFactors& factors, const ReadFloats& dy, const ReadFloats& x,
                        const ReadFloats& gamma, const WrittenFloats& dx, float* dgamma,
                        float* dbeta, int64_t count) {
  float dy_room[kBlock], x_room[kBlock], gamma_room[kBlock];
  double sum = 0;    // of g = dy * gamma
  double slope = 0;  // of g * xhat
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t width = std::min(kBlock, count - first);
    const float* const gradient = dy.block(first, width, dy_room);
    const float* const from = x.block(first, width, x_room);
    const float* const factor = gamma.block(first, width, gamma_room);
    float* const dgamma_block = dgamma + first;
    slope += static_cast<double>(vector_sum(width, [=](auto d, int64_t i) HWY_ATTR {
      const auto product = hn::Mul(hn::LoadU(d, gradient + i), normalised(d, factors, from + i));
      hn::StoreU(hn::Add(hn::LoadU(d, dgamma_block + i), product), d, dgamma_block + i);
      return hn::Mul(product, hn::LoadU(d, factor + i));
    }));
    if (dbeta == nullptr) continue;
    float* const dbeta_block = dbeta + first;
    sum += static_cast<double>(vector_sum(width, [=](auto d, int64_t i) HWY_ATTR {
      const auto value = hn::LoadU(d, gradient + i);
      hn::StoreU(hn::Add(hn::LoadU(d, dbeta_block + i), value), d, dbeta_block + i);
      return hn::Mul(value, hn::LoadU(d, factor + i));
    }));
  }
  const auto mean_g = static_cast<float>(sum / static_cast<double>(count));
  const auto mean_slope = static_cast<float>(slope / static_cast<double>(count));
  const float rstd = factors.rstd;
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t width = std::min(kBlock, count - first);
    const float* const gradient = dy.block(first, width, dy_room);
    const float* const from = x.block(first, width, x_room);
    const float* const factor = gamma.block(first, width, gamma_room);
    float* const to = dx.block(first, dy_room);
    for_each_vector(width, [=](auto d, int64_t i) HWY_ATTR {
      const auto g = hn::Mul(hn::LoadU(d, gradient + i), hn::LoadU(d, factor + i));
      const auto centered = hn::Sub(g, hn::Set(d, mean_g));
      const auto rest =
          hn::NegMulAdd(normalised(d, factors, from + i), hn::Set(d, mean_slope), centered);
      hn::StoreU(hn::Mul(hn::Set(d, rstd), rest), d, to + i);
    });
    dx.finish(first, width, to);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace keel::cpu::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel::cpu::kernels {

HWY_EXPORT(moments);
HWY_EXPORT(mean_square);
HWY_EXPORT(normalise);
HWY_EXPORT(normalise_backward);

Moments moments(const ReadFloats& x, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(moments)(x, count);
}

double mean_square(const ReadFloats& x, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(mean_square)(x, count);
}

void normalise(const NormFactors& factors, const ReadFloats& x, const ReadFloats& gamma,
               const ReadFloats& beta, const WrittenFloats& y, int64_t count) {
  HWY_DYNAMIC_DISPATCH(normalise)(factors, x, gamma, beta, y, count);
}

void normalise_backward(const NormFactors& factors, const ReadFloats& dy, const ReadFloats& x,
                        const ReadFloats& gamma, const WrittenFloats& dx, float* dgamma,
                        float* dbeta, int64_t count) {
  HWY_DYNAMIC_DISPATCH(normalise_backward)(factors, dy, x, gamma, dx, dgamma, dbeta, count);
}

}  // namespace keel::cpu::kernels
#endif  // HWY_ONCE
