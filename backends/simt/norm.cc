// SPDX-License-Identifier: Apache-2.0
// layer_norm, rms_norm and their gradients. A team takes a row, which it reads from memory once
// and again from the caches. 16-bit types are computed in float32 and rounded once.
#include "backends/simt/rows.h"

namespace keel::simt {
namespace {

// The difference first: x and the mean may be large and close.
KEEL_SIMT_FUNCTION float normalised(float x, float mean, float rstd) {
  return (x - mean) * rstd;
}

template <typename T, typename Team>
KEEL_SIMT_FUNCTION void norm(const NormArguments& args) {
  const Global<const T> x(args.x);
  const Global<const T> gamma(args.gamma);
  const Global<const T> beta(args.beta);
  const Global<T> y(args.y);
  const Global<float> means(args.mean);
  const Global<float> rstds(args.rstd);
  const auto columns = static_cast<float>(args.columns);
  const bool is_aligned = has_aligned_rows<T>(args.x, args.columns) && args.gamma % 16 == 0 &&
                          args.beta % 16 == 0 && args.y % 16 == 0;
  for_each_row<Team>(args.rows, [&](uint64_t row) {
    const uint64_t begin = row * args.columns;
    float mean = 0;
    if (args.mean != 0) {
      Accumulator own;
      for_each_column<Team, kLanes<T>>(args.columns, is_aligned, [&](auto width, uint64_t c) {
        constexpr int n = decltype(width)::value;
        const Lanes<T, n> value = x.template load<n>(begin + c);
        for (int lane = 0; lane < n; ++lane) own.add(to_float(value.at[lane]));
      });
      mean = Team::template reduce<Sum>(own.value()) / columns;
    }
    float own_squares = 0;
    for_each_column<Team, kLanes<T>>(args.columns, is_aligned, [&](auto width, uint64_t c) {
      constexpr int n = decltype(width)::value;
      const Lanes<T, n> value = x.template load<n>(begin + c);
      for (int lane = 0; lane < n; ++lane) {
        const float deviation = to_float(value.at[lane]) - mean;
        own_squares += deviation * deviation;
      }
    });
    const float variance = Team::template reduce<Sum>(own_squares) / columns;
    const float rstd = 1 / sqrtf(variance + args.eps);
    if (Team::rank() == 0) {
      if (args.mean != 0) means[row] = mean;
      rstds[row] = rstd;
    }
    for_each_column<Team, kLanes<T>>(args.columns, is_aligned, [&](auto width, uint64_t c) {
      constexpr int n = decltype(width)::value;
      Lanes<T, n> value = x.template load<n>(begin + c);
      const Lanes<T, n> factor = gamma.template load<n>(c);
      Lanes<T, n> offset = {};
      if (args.beta != 0) offset = beta.template load<n>(c);
      for (int lane = 0; lane < n; ++lane) {
        value.at[lane] = Round<T>::of(normalised(to_float(value.at[lane]), mean, rstd) *
                                          to_float(factor.at[lane]) +
                                      to_float(offset.at[lane]));
      }
      y.template store<n>(begin + c, value);
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

// A thread a column of a slice, as in sum_columns.
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
