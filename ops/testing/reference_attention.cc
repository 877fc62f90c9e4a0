// SPDX-License-Identifier: Apache-2.0
// References: attention, its gradient, the merge of partial results.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/testing/philox.h"
#include "ops/testing/reference_functions.h"
#include "ops/testing/reference_workspace.h"

namespace keel::ops {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The keys [first, last) visible to a query.
struct Window {
  size_t first = 0;
  size_t last = 0;
};

// Returns the bounds of the sequences: for each entry the maximum so far, limited to the number of
// tokens.
std::vector<int64_t> boundaries(const std::vector<double>& entries, int64_t tokens) {
  std::vector<int64_t> result;
  int64_t largest = 0;
  for (const double entry : entries) {
    largest = std::clamp(static_cast<int64_t>(entry), largest, tokens);
    result.push_back(largest);
  }
  return result;
}

// Inputs shared by attention and its gradient. |cu_seqlens| is the input with the boundaries of the
// queries; the keys' boundaries are the next input, the mask the one after.
class Heads {
 public:
  Heads(const Workspace& w, uint32_t cu_seqlens)
      : queries(static_cast<size_t>(w.extent(0, 0))),
        heads(static_cast<size_t>(w.extent(0, 1))),
        width(static_cast<size_t>(w.extent(0, 2))),
        // attention_backward has the same.
        attributes(w.attributes<keel_op_attention_attributes>()),
        scale(attributes.scale),
        w_(w),
        kv_heads_(static_cast<size_t>(w.extent(1, 1))),
        mask_(cu_seqlens + 2),
        has_mask_(w.call().inputs[mask_] != nullptr),
        windows_(queries),
        starts_(queries) {
    const bool is_packed = w.call().inputs[cu_seqlens] != nullptr;
    const std::vector<double> whole_q = {0, static_cast<double>(w.extent(0, 0))};
    const std::vector<double> whole_k = {0, static_cast<double>(w.extent(1, 0))};
    const std::vector<int64_t> of_q =
        boundaries(is_packed ? w.in(cu_seqlens) : whole_q, w.extent(0, 0));
    const std::vector<int64_t> of_k =
        boundaries(is_packed ? w.in(cu_seqlens + 1) : whole_k, w.extent(1, 0));
    for (size_t s = 0; s + 1 < of_q.size(); ++s) {
      const int64_t beyond = (of_k[s + 1] - of_k[s]) - (of_q[s + 1] - of_q[s]);
      for (int64_t i = of_q[s]; i < of_q[s + 1]; ++i) {
        int64_t last = of_k[s + 1];
        if (attributes.causal != 0) {
          last = std::clamp(of_k[s] + i - of_q[s] + beyond + 1, of_k[s], of_k[s + 1]);
        }
        if (has_mask_) {
          const bool is_masked = w.extent(mask_, 2) != 1 && i - of_q[s] >= w.extent(mask_, 2);
          last = is_masked ? of_k[s] : std::min(last, of_k[s] + w.extent(mask_, 3));
        }
        starts_[static_cast<size_t>(i)] = {s, static_cast<size_t>(of_q[s])};
        windows_[static_cast<size_t>(i)] = {static_cast<size_t>(of_k[s]),
                                            static_cast<size_t>(last)};
      }
    }
  }

  const Window& window(size_t query) const { return windows_[query]; }
  size_t query_at(size_t query, size_t head) const { return (query * heads + head) * width; }
  size_t key_at(size_t key, size_t head) const {
    return (key * kv_heads_ + head / (heads / kv_heads_)) * width;
  }

  // A dot product of two heads, and the size of its terms.
  struct Dot {
    double value = 0;
    double size = 0;
  };
  Dot dot(const std::vector<double>& a, size_t a_at, const std::vector<double>& b,
          size_t b_at) const {
    Dot result;
    for (size_t l = 0; l < width; ++l) {
      result.value += a[a_at + l] * b[b_at + l];
      result.size += std::abs(a[a_at + l] * b[b_at + l]);
    }
    result.size *= std::sqrt(static_cast<double>(width));
    return result;
  }
  Dot score(size_t query, size_t key, size_t head) const {
    const Dot plain = dot(w_.in(0), query_at(query, head), w_.in(1), key_at(key, head));
    const double bias = has_mask_ ? mask_of(query, key, head) : 0;
    return {scale * plain.value + bias,
            std::abs(scale) * plain.size + (std::isfinite(bias) ? std::abs(bias) : 0)};
  }

  // The factor by which dropout multiplies a weight.
  double factor(size_t query, size_t key, size_t head) const {
    if (attributes.p == 0) return 1;
    const auto row = static_cast<size_t>((w_.extent(1, 0) + 3) / 4 * 4);
    return dropout_factor(attributes, (head * queries + query) * row + key);
  }

  const size_t queries, heads, width;
  const keel_op_attention_attributes attributes;
  const double scale;

 private:
  // The sequence of a query.
  struct Start {
    size_t sequence = 0;
    size_t query = 0;  // the sequence's first
  };

  double mask_of(size_t query, size_t key, size_t head) const {
    const size_t places[] = {starts_[query].sequence, head, query - starts_[query].query,
                             key - windows_[query].first};
    size_t at = 0;
    for (uint32_t axis = 0; axis < 4; ++axis) {
      const auto extent = static_cast<size_t>(w_.extent(mask_, axis));
      at = at * extent + (extent == 1 ? 0 : places[axis]);
    }
    return w_.in(mask_)[at];
  }

  const Workspace& w_;
  const size_t kv_heads_;
  const uint32_t mask_;
  const bool has_mask_;
  std::vector<Window> windows_;
  std::vector<Start> starts_;
};

}  // namespace

void attention_reference(Workspace& w) {
  const Heads all(w, /*cu_seqlens=*/3);
  std::vector<Heads::Dot> scores;
  for (size_t h = 0; h < all.heads; ++h) {
    for (size_t i = 0; i < all.queries; ++i) {
      const Window seen = all.window(i);
      scores.clear();
      double top = -kInfinity;
      for (size_t j = seen.first; j < seen.last; ++j) {
        scores.push_back(all.score(i, j, h));
        // NaN counts as largest, also over minus infinity.
        if (!std::isnan(top) && !(scores.back().value <= top)) top = scores.back().value;
      }
      const size_t row = h * all.queries + i;
      w.out(1)[row] = top;
      if (top == -kInfinity) continue;
      double total = 0;
      for (const Heads::Dot& score : scores) total += std::exp(score.value - top);
      const double logsumexp = top + std::log(total);
      // The rounding of a score changes its probability and, through the total, all other
      // probabilities.
      double moved = 0;
      for (const Heads::Dot& score : scores) {
        if (score.value == -kInfinity) continue;  // weight 0, regardless of rounding
        moved += std::exp(score.value - logsumexp) * (score.size + std::abs(score.value - top));
      }
      w.out(1)[row] = logsumexp;
      w.size(1)[row] = 1 + std::abs(top) + std::abs(std::log(total)) + moved;
      const size_t out = all.query_at(i, h);
      for (size_t j = seen.first; j < seen.last; ++j) {
        const Heads::Dot& score = scores[j - seen.first];
        const double probability = std::exp(score.value - logsumexp) * all.factor(i, j, h);
        const double size =
            score.value == -kInfinity
                ? 0
                : probability * (1 + score.size + std::abs(score.value - top) + moved);
        for (size_t l = 0; l < all.width; ++l) {
          const double value = w.in(2)[all.key_at(j, h) + l];
          w.out(0)[out + l] += probability * value;
          w.size(0)[out + l] += size * std::abs(value);
        }
      }
    }
  }
}

void attention_backward_reference(Workspace& w) {
  const Heads all(w, /*cu_seqlens=*/6);
  const std::vector<double>& dout = w.in(4);
  for (size_t h = 0; h < all.heads; ++h) {
    for (size_t i = 0; i < all.queries; ++i) {
      const double logsumexp = w.in(5)[h * all.queries + i];
      if (logsumexp == -kInfinity) continue;
      const size_t query = all.query_at(i, h);
      const Heads::Dot own = all.dot(dout, query, w.in(3), query);
      const Window seen = all.window(i);
      for (size_t j = seen.first; j < seen.last; ++j) {
        const size_t key = all.key_at(j, h);
        const Heads::Dot score = all.score(i, j, h);
        const double probability = std::exp(score.value - logsumexp);
        // Exponents of minus infinity have no rounding error.
        const double probability_size =
            score.value == -kInfinity || logsumexp == kInfinity
                ? 0
                : probability * (1 + score.size + std::abs(score.value) + std::abs(logsumexp));
        const double factor = all.factor(i, j, h);
        const Heads::Dot of_value = all.dot(dout, query, w.in(2), key);
        const double slope = all.scale * probability * (factor * of_value.value - own.value);
        const double slope_size =
            std::abs(all.scale) * probability_size * (factor * of_value.size + own.size);
        for (size_t l = 0; l < all.width; ++l) {
          w.out(0)[query + l] += slope * w.in(1)[key + l];
          w.size(0)[query + l] += slope_size * std::abs(w.in(1)[key + l]);
          w.out(1)[key + l] += slope * w.in(0)[query + l];
          w.size(1)[key + l] += slope_size * std::abs(w.in(0)[query + l]);
          w.out(2)[key + l] += factor * probability * dout[query + l];
          w.size(2)[key + l] += factor * probability_size * std::abs(dout[query + l]);
        }
      }
    }
  }
}

void attention_merge_reference(Workspace& w) {
  const auto tokens = static_cast<size_t>(w.extent(0, 0));
  const auto heads = static_cast<size_t>(w.extent(0, 1));
  const auto width = static_cast<size_t>(w.extent(0, 2));
  for (size_t h = 0; h < heads; ++h) {
    for (size_t i = 0; i < tokens; ++i) {
      const size_t row = h * tokens + i;
      const double lse[] = {w.in(1)[row], w.in(3)[row]};
      const double top = std::isnan(lse[0]) || lse[0] > lse[1] ? lse[0] : lse[1];
      w.out(1)[row] = top;
      if (top == -kInfinity) continue;
      const double total = std::exp(lse[0] - top) + std::exp(lse[1] - top);
      w.out(1)[row] = top + std::log(total);
      w.size(1)[row] = 1 + std::abs(top);
      for (size_t side = 0; side < 2; ++side) {
        if (lse[side] == -kInfinity) continue;
        const double weight = std::exp(lse[side] - top) / total;
        for (size_t l = 0; l < width; ++l) {
          const size_t at = (i * heads + h) * width + l;
          const double value = w.in(side == 0 ? 0 : 2)[at];
          w.out(0)[at] += weight * value;
          w.size(0)[at] += weight * std::abs(value) * (1 + std::abs(lse[side]) + std::abs(top));
        }
      }
    }
  }
}

}  // namespace keel::ops
