// cross_entropy and its gradient. A team takes a row, and reads it once.
#include "backends/simt/simt.h"

namespace keel::simt {
namespace {

// log sum exp in one pass: the largest so far, and the sum of e^(x - largest).
class OnlineLogSum {
 public:
  // NaN is no new largest, and makes the sum NaN.
  KEEL_SIMT_FUNCTION void add(float x) {
    if (x > largest_) {
      sum_ = sum_ * expf(largest_ - x) + 1;
      largest_ = x;
    } else {
      sum_ += expf(x - largest_);
    }
  }
  // On all threads of a team: the sums of all of them.
  template <typename Team>
  KEEL_SIMT_FUNCTION void combine() {
    const float largest = Team::template reduce<Largest>(largest_);
    sum_ = Team::template reduce<Sum>(sum_ * expf(largest_ - largest));
    largest_ = largest;
  }
  KEEL_SIMT_FUNCTION float largest() const { return largest_; }
  KEEL_SIMT_FUNCTION float log_of_sum() const { return logf(sum_); }

 private:
  float largest_ = Largest::kNone;
  float sum_ = 0;
};

template <typename Team>
KEEL_SIMT_FUNCTION void cross_entropy(const CrossEntropyArguments& args) {
  const Global<const float> logits(args.logits);
  const Global<const int32_t> labels(args.labels);
  const Global<float> loss(args.loss);
  const Global<float> logsumexp(args.logsumexp);
  const bool is_aligned = args.logits % 16 == 0 && args.columns % 4 == 0;
  for_each_row<Team>(args.rows, [&](uint64_t row) {
    const uint64_t begin = row * args.columns;
    OnlineLogSum own;
    if (is_aligned) {
      for (uint64_t c = 4 * Team::rank(); c < args.columns; c += 4 * Team::kSize) {
        const Lanes<float, 4> four = logits.template load<4>(begin + c);
        for (int lane = 0; lane < 4; ++lane) own.add(four.at[lane]);
      }
    } else {
      for (uint64_t c = Team::rank(); c < args.columns; c += Team::kSize) {
        own.add(logits[begin + c]);
      }
    }
    own.template combine<Team>();
    if (Team::rank() != 0) return;
    const float log_of_sum = own.log_of_sum();
    const int64_t label = labels[row];
    float row_loss = 0;
    if (label >= 0 && static_cast<uint64_t>(label) < args.columns) {
      // The difference first: both are often large and close.
      row_loss = log_of_sum + (own.largest() - logits[begin + static_cast<uint64_t>(label)]);
    }
    loss[row] = row_loss;
    logsumexp[row] = own.largest() + log_of_sum;
  });
}

template <typename Team>
KEEL_SIMT_FUNCTION void cross_entropy_backward(const CrossEntropyBackwardArguments& args) {
  const Global<const float> logits(args.logits);
  const Global<const int32_t> labels(args.labels);
  const Global<const float> logsumexp(args.logsumexp);
  const Global<float> dlogits(args.dlogits);
  const bool is_aligned = args.logits % 16 == 0 && args.dlogits % 16 == 0 && args.columns % 4 == 0;
  for_each_row<Team>(args.rows, [&](uint64_t row) {
    const uint64_t begin = row * args.columns;
    const int64_t label = labels[row];
    const bool is_counted = label >= 0 && static_cast<uint64_t>(label) < args.columns;
    const float log_sum = logsumexp[row];
    const auto gradient = [&](float logit, uint64_t column) {
      if (!is_counted) return 0.0F;
      const float hit = column == static_cast<uint64_t>(label) ? 1.0F : 0.0F;
      return args.scale * (expf(logit - log_sum) - hit);
    };
    if (is_aligned) {
      for (uint64_t c = 4 * Team::rank(); c < args.columns; c += 4 * Team::kSize) {
        Lanes<float, 4> four = logits.template load<4>(begin + c);
        for (int lane = 0; lane < 4; ++lane) {
          four.at[lane] = gradient(four.at[lane], c + static_cast<uint64_t>(lane));
        }
        dlogits.template store<4>(begin + c, four);
      }
    } else {
      for (uint64_t c = Team::rank(); c < args.columns; c += Team::kSize) {
        dlogits[begin + c] = gradient(logits[begin + c], c);
      }
    }
  });
}

}  // namespace
}  // namespace keel::simt

KEEL_SIMT_KERNEL(cross_entropy_warp, keel::simt::CrossEntropyArguments) {
  keel::simt::cross_entropy<keel::simt::WarpTeam>(args);
}
KEEL_SIMT_KERNEL(cross_entropy_block, keel::simt::CrossEntropyArguments) {
  keel::simt::cross_entropy<keel::simt::BlockTeam>(args);
}
KEEL_SIMT_KERNEL(cross_entropy_backward_warp, keel::simt::CrossEntropyBackwardArguments) {
  keel::simt::cross_entropy_backward<keel::simt::WarpTeam>(args);
}
KEEL_SIMT_KERNEL(cross_entropy_backward_block, keel::simt::CrossEntropyBackwardArguments) {
  keel::simt::cross_entropy_backward<keel::simt::BlockTeam>(args);
}
