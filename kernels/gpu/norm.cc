// SPDX-License-Identifier: Apache-2.0
// layer_norm, rms_norm and their gradients. A team processes a row, which is read from memory once.
// 16-bit types are computed in float32 and rounded once.
#include "kernels/gpu/rows.h"

namespace keel::simt {
namespace {

// Subtracts first: x and the mean may be large and close.
KEEL_SIMT_FUNCTION float normalised(float x, float mean, float rstd) {
  return (x - mean) * rstd;
}

// Moments of the scaled elements; |rest| is the part of the mean that |mean| lacks.
struct Moments {
  float mean;
  float rest;
  float variance;
};

// The float32 rounding error of a sum may exceed the row's deviations from its mean. One more sum,
// over the deviations, measures the error of the mean; if the error dominates the deviations, the
// mean is corrected and the deviations are computed again, at most twice. |scale| is a power of
// two: 1, unless the squares of the row's elements leave float32's range.
template <typename Team, typename Row>
KEEL_SIMT_FUNCTION Moments moments(Row& row, float columns, bool has_mean, float scale) {
  float mean = 0;
  if (has_mean) {
    float own = 0;
    row.for_each([&](auto width, uint64_t, const auto& value) {
      for (int lane = 0; lane < decltype(width)::value; ++lane) own += value.at[lane] * scale;
    });
    mean = Team::template reduce<Sum>(own) / columns;
  }
  for (int again = 2;; --again) {
    float own_sum = 0;
    float own_squares = 0;
    row.for_each([&](auto width, uint64_t, const auto& value) {
      for (int lane = 0; lane < decltype(width)::value; ++lane) {
        const float deviation = value.at[lane] * scale - mean;
        own_sum += deviation;
        own_squares += deviation * deviation;
      }
    });
    const float squares = Team::template reduce<Sum>(own_squares);
    if (!has_mean) return {0, 0, squares / columns};
    const float sum = Team::template reduce<Sum>(own_sum);
    const float rest = sum / columns;
    const float excess = sum * rest;
    // Subtracting up to three quarters costs the variance two bits.
    if (again > 0 && excess > 0.75F * squares) {
      mean += rest;
      continue;
    }
    const float exact = squares - excess;
    return {mean, rest, (exact < 0 ? 0 : exact) / columns};  // NaN stays
  }
}

// Returns the scale for a row of |spread|, the sum of its variance and eps, and of |mean|, both at
// a scale of 1. At the scales other than 1 the squares of all float32 values to which they apply
// stay in range, and so do sums of 2^31 squares. With a |mean| of 2^-20 or more no deviation is too
// small to be squared.
KEEL_SIMT_FUNCTION float scale_for(float spread, float mean) {
  if (spread >= 0x1p-90F && spread <= 3.402823466e38F) return 1;
  if (spread < 0x1p-90F) return fabsf(mean) < 0x1p-20F ? 0x1p80F : 1;
  return 0x1p-80F;
}

template <typename T, typename Team>
KEEL_SIMT_FUNCTION void norm(const NormArguments& args) {
  const Global<const T> x(args.x);
  const Global<const T> gamma(args.gamma);
  const Global<const T> beta(args.beta);
  const Global<T> y(args.y);
  const Global<float> means(args.mean);
  const Global<float> rstds(args.rstd);
  const bool is_aligned = has_aligned_rows<T>(args.x, args.columns) && args.gamma % 16 == 0 &&
                          args.beta % 16 == 0 && args.y % 16 == 0;
  for_each_row<Team>(args.rows, [&](uint64_t row) {
    const uint64_t begin = row * args.columns;
    const auto load = [&](auto width, uint64_t c) {
      constexpr int n = decltype(width)::value;
      const Lanes<T, n> value = x.template load<n>(begin + c);
      Lanes<float, n> values;
      for (int lane = 0; lane < n; ++lane) values.at[lane] = to_float(value.at[lane]);
      return values;
    };
    RowValues<T, Team, decltype(load)> elements(args.columns, is_aligned, load);
    float scale = 1;
    Moments of_row;
    while (true) {
      of_row = moments<Team>(elements, static_cast<float>(args.columns), args.mean != 0, scale);
      if (scale != 1) break;
      scale = scale_for(of_row.variance + args.eps, of_row.mean);
      if (scale == 1) break;
    }
    const float mean = of_row.mean;
    // Scaling may flush eps to 0, which matters only if the variance is 0.
    const float spread = of_row.variance + args.eps * scale * scale;
    const float rstd = 1 / (spread == 0 ? sqrtf(args.eps) * scale : sqrtf(spread));
    // The shift corrects for |rest|; 0 if no mean is subtracted.
    const float shift = args.mean != 0 ? -of_row.rest * rstd : 0;
    if (Team::rank() == 0) {
      if (args.mean != 0) {
        const bool is_finite = fabsf(of_row.rest) <= 3.402823466e38F;
        means[row] = (is_finite ? mean + of_row.rest : mean) / scale;
      }
      rstds[row] = rstd * scale;
    }
    elements.for_each([&](auto width, uint64_t c, const auto& value) {
      constexpr int n = decltype(width)::value;
      const Lanes<T, n> factor = gamma.template load<n>(c);
      Lanes<T, n> offset = {};
      if (args.beta != 0) offset = beta.template load<n>(c);
      Lanes<T, n> result;
      for (int lane = 0; lane < n; ++lane) {
        const float xhat = normalised(value.at[lane] * scale, mean, rstd) + shift;
        result.at[lane] =
            Round<T>::of(xhat * to_float(factor.at[lane]) + to_float(offset.at[lane]));
      }
      y.template store<n>(begin + c, result);
    });
  });
}

template <typename T, typename Team>
KEEL_SIMT_FUNCTION void norm_backward(const NormBackwardArguments& args) {
  const Global<const T> dy(args.dy);
  const Global<const T> x(args.x);
  const Global<const T> gamma(args.gamma);
  const Global<const float> means(args.mean);
  const Global<const float> rstds(args.rstd);
  const Global<T> dx(args.dx);
  const auto columns = static_cast<float>(args.columns);
  const bool is_aligned = has_aligned_rows<T>(args.dy, args.columns) && args.x % 16 == 0 &&
                          args.gamma % 16 == 0 && args.dx % 16 == 0;
  for_each_row<Team>(args.rows, [&](uint64_t row) {
    const uint64_t begin = row * args.columns;
    const float mean = args.mean != 0 ? means[row] : 0;
    const float rstd = rstds[row];
    float own_sum = 0;    // of g = dy * gamma
    float own_slope = 0;  // of g * xhat
    for_each_column<Team, kLanes<T>>(args.columns, is_aligned, [&](auto width, uint64_t c) {
      constexpr int n = decltype(width)::value;
      const Lanes<T, n> gradient = dy.template load<n>(begin + c);
      const Lanes<T, n> value = x.template load<n>(begin + c);
      const Lanes<T, n> factor = gamma.template load<n>(c);
      for (int lane = 0; lane < n; ++lane) {
        const float g = to_float(gradient.at[lane]) * to_float(factor.at[lane]);
        own_sum += g;
        own_slope += g * normalised(to_float(value.at[lane]), mean, rstd);
      }
    });
    float mean_g = 0;
    if (args.mean != 0) mean_g = Team::template reduce<Sum>(own_sum) / columns;
    const float mean_slope = Team::template reduce<Sum>(own_slope) / columns;
    for_each_column<Team, kLanes<T>>(args.columns, is_aligned, [&](auto width, uint64_t c) {
      constexpr int n = decltype(width)::value;
      Lanes<T, n> gradient = dy.template load<n>(begin + c);
      const Lanes<T, n> value = x.template load<n>(begin + c);
      const Lanes<T, n> factor = gamma.template load<n>(c);
      for (int lane = 0; lane < n; ++lane) {
        const float g = to_float(gradient.at[lane]) * to_float(factor.at[lane]);
        const float xhat = normalised(to_float(value.at[lane]), mean, rstd);
        gradient.at[lane] = Round<T>::of(rstd * ((g - mean_g) - xhat * mean_slope));
      }
      dx.template store<n>(begin + c, gradient);
    });
  });
}

// One thread per column of a slice, as in sum_columns.
template <typename T>
KEEL_SIMT_FUNCTION void norm_columns(const NormColumnsArguments& args) {
  const Global<const T> dy(args.dy);
  const Global<const T> x(args.x);
  const Global<const float> means(args.mean);
  const Global<const float> rstds(args.rstd);
  const Global<float> dgamma(args.dgamma);
  const Global<float> dbeta(args.dbeta);
  const uint64_t slice = block_index().y;
  const uint64_t first = slice * args.slice_rows;
  const uint64_t end = first + args.slice_rows < args.rows ? first + args.slice_rows : args.rows;
  const uint64_t step = uint64_t{grid_size().x} * kThreads;
  for (uint64_t column = uint64_t{block_index().x} * kThreads + thread_index().x;
       column < args.columns; column += step) {
    Accumulator factors;
    Accumulator offsets;
    for (uint64_t row = first; row < end; ++row) {
      const float gradient = to_float(dy[row * args.columns + column]);
      const float value = to_float(x[row * args.columns + column]);
      factors.add(gradient * normalised(value, args.mean != 0 ? means[row] : 0, rstds[row]));
      if (args.dbeta != 0) offsets.add(gradient);
    }
    dgamma[slice * args.columns + column] = factors.value();
    if (args.dbeta != 0) dbeta[slice * args.columns + column] = offsets.value();
  }
}

}  // namespace
}  // namespace keel::simt

#define KEEL_SIMT_NORM(type, T)                                                       \
  KEEL_SIMT_KERNEL(norm_##type##_warp, keel::simt::NormArguments) {                   \
    keel::simt::norm<T, keel::simt::WarpTeam>(args);                                  \
  }                                                                                   \
  KEEL_SIMT_KERNEL(norm_##type##_block, keel::simt::NormArguments) {                  \
    keel::simt::norm<T, keel::simt::BlockTeam>(args);                                 \
  }                                                                                   \
  KEEL_SIMT_KERNEL(norm_backward_##type##_warp, keel::simt::NormBackwardArguments) {  \
    keel::simt::norm_backward<T, keel::simt::WarpTeam>(args);                         \
  }                                                                                   \
  KEEL_SIMT_KERNEL(norm_backward_##type##_block, keel::simt::NormBackwardArguments) { \
    keel::simt::norm_backward<T, keel::simt::BlockTeam>(args);                        \
  }                                                                                   \
  KEEL_SIMT_KERNEL(norm_columns_##type, keel::simt::NormColumnsArguments) {           \
    keel::simt::norm_columns<T>(args);                                                \
  }
KEEL_SIMT_NORM(f32, float)
KEEL_SIMT_NORM(bf16, keel::simt::bf16)
KEEL_SIMT_NORM(f16, keel::simt::f16)
#undef KEEL_SIMT_NORM
