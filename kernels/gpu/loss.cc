// SPDX-License-Identifier: Apache-2.0
// cross_entropy and its gradient. A team processes a row, and reads the row once, or twice if a
// logsumexp is large.
#include "kernels/gpu/rows.h"
#include "kernels/gpu/simt.h"

namespace keel::simt {
namespace {

// log sum exp in one pass: the maximum so far, and the sum of e^(x - maximum).
class OnlineLogSum {
 public:
  // NaN never becomes the maximum, and makes the sum NaN.
  KEEL_SIMT_FUNCTION void add(float x) {
    if (x > largest_) {
      sum_ = sum_ * expf(largest_ - x) + 1;
      largest_ = x;
    } else {
      sum_ += expf(x - largest_);
    }
  }
  // Combines the sums of all threads of the team; every thread gets the result.
  template <typename Team>
  KEEL_SIMT_FUNCTION void combine() {
    const float largest = Team::template reduce<Largest>(largest_);
    sum_ = Team::template reduce<Sum>(sum_ * expf(largest_ - largest));
    largest_ = largest;
  }
  KEEL_SIMT_FUNCTION float largest() const { return largest_; }
  KEEL_SIMT_FUNCTION float log_of_sum() const { return logf(sum_); }
  // Returns the log sum exp minus |log_sum|, if the difference is within rounding error; else 0.
  KEEL_SIMT_FUNCTION float rounded_off(float log_sum) const {
    const float lacks = (largest_ - log_sum) + log_of_sum();
    return fabsf(lacks) < 0x1p-17F * fabsf(log_sum) ? lacks : 0;  // 0 for NaN and infinities
  }

 private:
  float largest_ = Largest::kNone;
  float sum_ = 0;
};

// Returns, on all threads of the team, the sum of the row of |logits| that starts at |begin|.
template <typename T, typename Team>
KEEL_SIMT_FUNCTION OnlineLogSum log_sum_of_row(const Global<const T>& logits, uint64_t begin,
                                               uint64_t columns, bool is_aligned) {
  OnlineLogSum own;
  for_each_column<Team, kLanes<T>>(columns, is_aligned, [&](auto width, uint64_t c) {
    constexpr int n = decltype(width)::value;
    const Lanes<T, n> some = logits.template load<n>(begin + c);
    for (int lane = 0; lane < n; ++lane) own.add(to_float(some.at[lane]));
  });
  own.template combine<Team>();
  return own;
}

template <typename T, typename Team>
KEEL_SIMT_FUNCTION void cross_entropy(const CrossEntropyArguments& args) {
  const Global<const T> logits(args.logits);
  const Global<const int32_t> labels(args.labels);
  const Global<float> loss(args.loss);
  const Global<float> logsumexp(args.logsumexp);
  const bool is_aligned = has_aligned_rows<T>(args.logits, args.columns);
  for_each_row<Team>(args.rows, [&](uint64_t row) {
    const uint64_t begin = row * args.columns;
    const OnlineLogSum own = log_sum_of_row<T, Team>(logits, begin, args.columns, is_aligned);
    if (Team::rank() != 0) return;
    const float log_of_sum = own.log_of_sum();
    const int64_t label = labels[row];
    float row_loss = 0;
    if (label >= 0 && static_cast<uint64_t>(label) < args.columns) {
      // Subtracts first: both operands are often large and close.
      row_loss =
          log_of_sum + (own.largest() - to_float(logits[begin + static_cast<uint64_t>(label)]));
    }
    loss[row] = row_loss;
    logsumexp[row] = own.largest() + log_of_sum;
  });
}

// From this magnitude on, float32 rounds a logsumexp by 2^-19 or more, and the probabilities
// likewise: the row is then read again to recover the rounding error.
constexpr float kLargeLogSum = 64;

template <typename T, typename Team>
KEEL_SIMT_FUNCTION void cross_entropy_backward(const CrossEntropyBackwardArguments& args) {
  const Global<const T> logits(args.logits);
  const Global<const int32_t> labels(args.labels);
  const Global<const float> logsumexp(args.logsumexp);
  const Global<T> dlogits(args.dlogits);
  const bool is_aligned = has_aligned_rows<T>(args.logits, args.columns) && args.dlogits % 16 == 0;
  for_each_row<Team>(args.rows, [&](uint64_t row) {
    const uint64_t begin = row * args.columns;
    const int64_t label = labels[row];
    const bool is_counted = label >= 0 && static_cast<uint64_t>(label) < args.columns;
    const float log_sum = logsumexp[row];
    float rest = 0;
    if (is_counted && fabsf(log_sum) >= kLargeLogSum) {
      rest = log_sum_of_row<T, Team>(logits, begin, args.columns, is_aligned).rounded_off(log_sum);
    }
    const auto gradient = [&](float logit, uint64_t column) {
      if (!is_counted) return 0.0F;
      const float hit = column == static_cast<uint64_t>(label) ? 1.0F : 0.0F;
      return args.scale * (expf((logit - log_sum) - rest) - hit);
    };
    for_each_column<Team, kLanes<T>>(args.columns, is_aligned, [&](auto width, uint64_t c) {
      constexpr int n = decltype(width)::value;
      Lanes<T, n> some = logits.template load<n>(begin + c);
      for (int lane = 0; lane < n; ++lane) {
        some.at[lane] =
            Round<T>::of(gradient(to_float(some.at[lane]), c + static_cast<uint64_t>(lane)));
      }
      dlogits.template store<n>(begin + c, some);
    });
  });
}

}  // namespace
}  // namespace keel::simt

#define KEEL_SIMT_LOSS(dtype, Type, team, Team)                                         \
  KEEL_SIMT_KERNEL(cross_entropy_##dtype##_##team, keel::simt::CrossEntropyArguments) { \
    keel::simt::cross_entropy<Type, keel::simt::Team>(args);                            \
  }                                                                                     \
  KEEL_SIMT_KERNEL(cross_entropy_backward_##dtype##_##team,                             \
                   keel::simt::CrossEntropyBackwardArguments) {                         \
    keel::simt::cross_entropy_backward<Type, keel::simt::Team>(args);                   \
  }

KEEL_SIMT_LOSS(f32, float, warp, WarpTeam)
KEEL_SIMT_LOSS(f32, float, block, BlockTeam)
KEEL_SIMT_LOSS(bf16, keel::simt::bf16, warp, WarpTeam)
KEEL_SIMT_LOSS(bf16, keel::simt::bf16, block, BlockTeam)
KEEL_SIMT_LOSS(f16, keel::simt::f16, warp, WarpTeam)
KEEL_SIMT_LOSS(f16, keel::simt::f16, block, BlockTeam)
#undef KEEL_SIMT_LOSS
