// SPDX-License-Identifier: Apache-2.0
// cross_entropy_shard and its gradient. A team processes a row, and reads the row once.
#include "kernels/gpu/simt.h"

namespace keel::simt {
namespace {

constexpr float kMinusInfinity = -INFINITY;

// The maximum so far, and the sum of e^(x - maximum). Masked entries, minus infinity, add nothing;
// a row may be entirely masked.
class ShardSum {
 public:
  // NaN never becomes the maximum, and makes the sum NaN.
  KEEL_SIMT_FUNCTION void add(float x) {
    if (x > largest_) {
      sum_ = scaled(x) + 1;
      largest_ = x;
    } else if (x != kMinusInfinity) {
      sum_ += expf(x - largest_);
    }
  }
  // Combines the sums of all threads of the team; every thread gets the result.
  template <typename Team>
  KEEL_SIMT_FUNCTION void combine() {
    const float largest = Team::template reduce<Largest>(largest_);
    sum_ = Team::template reduce<Sum>(scaled(largest));
    largest_ = largest;
  }
  KEEL_SIMT_FUNCTION float largest() const { return largest_; }
  KEEL_SIMT_FUNCTION float sum() const { return sum_; }

 private:
  // Returns the sum relative to another maximum.
  KEEL_SIMT_FUNCTION float scaled(float largest) const {
    return sum_ == 0 ? 0 : sum_ * expf(largest_ - largest);
  }

  float largest_ = kMinusInfinity;
  float sum_ = 0;
};

template <typename T, typename Team>
KEEL_SIMT_FUNCTION void cross_entropy_shard(const CrossEntropyShardArguments& args) {
  const Global<const T> logits(args.logits);
  const Global<const int32_t> labels(args.labels);
  constexpr int kLanes = 16 / sizeof(T);
  const bool is_aligned = args.logits % 16 == 0 && args.columns % kLanes == 0;
  for_each_row<Team>(args.rows, [&](uint64_t row) {
    const uint64_t begin = row * args.columns;
    ShardSum own;
    if (is_aligned) {
      for (uint64_t c = kLanes * Team::rank(); c < args.columns; c += kLanes * Team::kSize) {
        const Lanes<T, kLanes> some = logits.template load<kLanes>(begin + c);
        for (int lane = 0; lane < kLanes; ++lane) own.add(to_float(some.at[lane]));
      }
    } else {
      for (uint64_t c = Team::rank(); c < args.columns; c += Team::kSize) {
        own.add(to_float(logits[begin + c]));
      }
    }
    own.template combine<Team>();
    if (Team::rank() != 0) return;
    const int64_t column = labels[row] - args.first;
    float target = 0;
    if (column >= 0 && static_cast<uint64_t>(column) < args.columns) {
      target = to_float(logits[begin + static_cast<uint64_t>(column)]);
    }
    Global<float>(args.max)[row] = own.largest();
    Global<float>(args.sum_exp)[row] = own.sum();
    Global<float>(args.target)[row] = target;
  });
}

template <typename T, typename Team>
KEEL_SIMT_FUNCTION void cross_entropy_shard_backward(
    const CrossEntropyShardBackwardArguments& args) {
  const Global<const T> logits(args.logits);
  const Global<const int32_t> labels(args.labels);
  const Global<const float> logsumexp(args.logsumexp);
  const Global<T> dlogits(args.dlogits);
  constexpr int kLanes = 16 / sizeof(T);
  const bool is_aligned =
      args.logits % 16 == 0 && args.dlogits % 16 == 0 && args.columns % kLanes == 0;
  for_each_row<Team>(args.rows, [&](uint64_t row) {
    const uint64_t begin = row * args.columns;
    const int64_t label = labels[row];
    const int64_t target = label - args.first;
    const float log_sum = logsumexp[row];
    const auto gradient = [&](T logit, uint64_t column) {
      const float hit = static_cast<int64_t>(column) == target ? 1.0F : 0.0F;
      return Round<T>::of(label < 0 ? 0.0F : args.scale * (expf(to_float(logit) - log_sum) - hit));
    };
    if (is_aligned) {
      for (uint64_t c = kLanes * Team::rank(); c < args.columns; c += kLanes * Team::kSize) {
        Lanes<T, kLanes> some = logits.template load<kLanes>(begin + c);
        for (int lane = 0; lane < kLanes; ++lane) {
          some.at[lane] = gradient(some.at[lane], c + static_cast<uint64_t>(lane));
        }
        dlogits.template store<kLanes>(begin + c, some);
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

#define KEEL_SIMT_SHARD(dtype, Type, team, Team)                                          \
  KEEL_SIMT_KERNEL(shard_loss_##dtype##_##team, keel::simt::CrossEntropyShardArguments) { \
    keel::simt::cross_entropy_shard<Type, keel::simt::Team>(args);                        \
  }                                                                                       \
  KEEL_SIMT_KERNEL(shard_gradient_##dtype##_##team,                                       \
                   keel::simt::CrossEntropyShardBackwardArguments) {                      \
    keel::simt::cross_entropy_shard_backward<Type, keel::simt::Team>(args);               \
  }

KEEL_SIMT_SHARD(f32, float, warp, WarpTeam)
KEEL_SIMT_SHARD(f32, float, block, BlockTeam)
KEEL_SIMT_SHARD(bf16, keel::simt::bf16, warp, WarpTeam)
KEEL_SIMT_SHARD(bf16, keel::simt::bf16, block, BlockTeam)
KEEL_SIMT_SHARD(f16, keel::simt::f16, warp, WarpTeam)
KEEL_SIMT_SHARD(f16, keel::simt::f16, block, BlockTeam)
#undef KEEL_SIMT_SHARD
