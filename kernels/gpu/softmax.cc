// SPDX-License-Identifier: Apache-2.0
// softmax and its gradient. A team processes a row, which is read from memory once. 16-bit types
// are computed in float32 and rounded once.
#include "kernels/gpu/rows.h"

namespace keel::simt {
namespace {

// The exponents of one row: scale * x, minus infinity for hidden elements.
template <typename T>
class Exponents {
 public:
  KEEL_SIMT_FUNCTION Exponents(const SoftmaxArguments& args, uint64_t row)
      : x_(args.x),
        mask_(args.mask),
        begin_(row * args.columns),
        mask_begin_(args.mask == 0 ? 0 : row % args.mask_rows * args.columns),
        visible_(args.columns),
        scale_(args.scale),
        is_masked_(args.mask != 0) {
    if (args.causal == 0) return;
    // Row i of m sees i + 1 + n - m columns, at most n since i < m.
    const uint64_t seen = row % args.height + 1 + args.columns;
    visible_ = seen > args.height ? seen - args.height : 0;
  }

  template <int n>
  KEEL_SIMT_FUNCTION Lanes<float, n> load(uint64_t c) const {
    const Lanes<T, n> value = x_.template load<n>(begin_ + c);
    Lanes<float, n> exponents;
    for (int lane = 0; lane < n; ++lane) {
      const uint64_t column = c + static_cast<uint64_t>(lane);
      const bool is_hidden = column >= visible_ || (is_masked_ && mask_[mask_begin_ + column] != 0);
      exponents.at[lane] = is_hidden ? -INFINITY : scale_ * to_float(value.at[lane]);
    }
    return exponents;
  }

 private:
  const Global<const T> x_;
  const Global<const uint8_t> mask_;
  const uint64_t begin_;
  const uint64_t mask_begin_;
  uint64_t visible_;
  const float scale_;
  const bool is_masked_;
};

// A power of a hidden element: no exponential is negative, and 0 * factor would be NaN if another
// element of the row is.
constexpr float kHidden = -1;

KEEL_SIMT_FUNCTION float power_of(float exponent, float top) {
  return exponent == -INFINITY ? kHidden : expf(exponent - top);
}

template <typename T, typename Team>
KEEL_SIMT_FUNCTION void softmax(const SoftmaxArguments& args) {
  const Global<T> y(args.y);
  const bool is_aligned = has_aligned_rows<T>(args.x, args.columns) && args.y % 16 == 0;
  for_each_row<Team>(args.rows, [&](uint64_t row) {
    const uint64_t begin = row * args.columns;
    const Exponents<T> exponents(args, row);
    const auto load = [&](auto width, uint64_t c) {
      return exponents.template load<decltype(width)::value>(c);
    };
    // Exponents; the second pass makes powers of those that are kept.
    RowValues<T, Team, decltype(load)> values(args.columns, is_aligned, load);
    float own_top = Largest::kNone;
    values.for_each([&](auto width, uint64_t, auto& value) {
      for (int lane = 0; lane < decltype(width)::value; ++lane) {
        own_top = Largest::of(own_top, value.at[lane]);
      }
    });
    const float top = Team::template reduce<Largest>(own_top);
    float own_sum = 0;
    values.for_each([&](auto width, uint64_t, auto& value) {
      for (int lane = 0; lane < decltype(width)::value; ++lane) {
        const float power = power_of(value.at[lane], top);
        value.at[lane] = power;
        own_sum += power == kHidden ? 0 : power;
      }
    });
    // In a row without visible elements the sum is 0.
    const float sum = Team::template reduce<Sum>(own_sum);
    const float factor = sum == 0 ? 0 : 1 / sum;
    const bool are_powers = values.is_kept();
    values.for_each([&](auto width, uint64_t c, auto& value) {
      constexpr int n = decltype(width)::value;
      Lanes<T, n> result;
      for (int lane = 0; lane < n; ++lane) {
        const float power = are_powers ? value.at[lane] : power_of(value.at[lane], top);
        result.at[lane] = Round<T>::of(power == kHidden ? 0 : power * factor);
      }
      y.template store<n>(begin + c, result);
    });
  });
}

template <typename T, typename Team>
KEEL_SIMT_FUNCTION void softmax_backward(const SoftmaxBackwardArguments& args) {
  const Global<const T> y(args.y);
  const Global<const T> dy(args.dy);
  const Global<T> dx(args.dx);
  const bool is_aligned =
      has_aligned_rows<T>(args.y, args.columns) && args.dy % 16 == 0 && args.dx % 16 == 0;
  for_each_row<Team>(args.rows, [&](uint64_t row) {
    const uint64_t begin = row * args.columns;
    float own_dot = 0;
    for_each_column<Team, kLanes<T>>(args.columns, is_aligned, [&](auto width, uint64_t c) {
      constexpr int n = decltype(width)::value;
      const Lanes<T, n> value = y.template load<n>(begin + c);
      const Lanes<T, n> gradient = dy.template load<n>(begin + c);
      for (int lane = 0; lane < n; ++lane) {
        own_dot += to_float(value.at[lane]) * to_float(gradient.at[lane]);
      }
    });
    const float dot = Team::template reduce<Sum>(own_dot);
    for_each_column<Team, kLanes<T>>(args.columns, is_aligned, [&](auto width, uint64_t c) {
      constexpr int n = decltype(width)::value;
      const Lanes<T, n> value = y.template load<n>(begin + c);
      Lanes<T, n> gradient = dy.template load<n>(begin + c);
      for (int lane = 0; lane < n; ++lane) {
        gradient.at[lane] = Round<T>::of(args.scale * to_float(value.at[lane]) *
                                         (to_float(gradient.at[lane]) - dot));
      }
      dx.template store<n>(begin + c, gradient);
    });
  });
}

}  // namespace
}  // namespace keel::simt

#define KEEL_SIMT_SOFTMAX(type, T)                                                          \
  KEEL_SIMT_KERNEL(softmax_##type##_warp, keel::simt::SoftmaxArguments) {                   \
    keel::simt::softmax<T, keel::simt::WarpTeam>(args);                                     \
  }                                                                                         \
  KEEL_SIMT_KERNEL(softmax_##type##_block, keel::simt::SoftmaxArguments) {                  \
    keel::simt::softmax<T, keel::simt::BlockTeam>(args);                                    \
  }                                                                                         \
  KEEL_SIMT_KERNEL(softmax_backward_##type##_warp, keel::simt::SoftmaxBackwardArguments) {  \
    keel::simt::softmax_backward<T, keel::simt::WarpTeam>(args);                            \
  }                                                                                         \
  KEEL_SIMT_KERNEL(softmax_backward_##type##_block, keel::simt::SoftmaxBackwardArguments) { \
    keel::simt::softmax_backward<T, keel::simt::BlockTeam>(args);                           \
  }
KEEL_SIMT_SOFTMAX(f32, float)
KEEL_SIMT_SOFTMAX(bf16, keel::simt::bf16)
KEEL_SIMT_SOFTMAX(f16, keel::simt::f16)
#undef KEEL_SIMT_SOFTMAX
