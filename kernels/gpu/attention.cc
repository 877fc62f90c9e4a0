// SPDX-License-Identifier: Apache-2.0
// attention, and the merge of partial results: see attention.h.
#include "kernels/gpu/attention.h"

namespace keel::simt {
namespace {

template <uint32_t kWidth, typename T>
KEEL_SIMT_FUNCTION void attention(const AttentionArguments& args) {
  KEEL_SIMT_SHARED(int64_t, windows, kWindowCells * kAttentionTile);
  KEEL_SIMT_SHARED(uint32_t, kept, kAttentionTile * kKeptWords);
  const AttentionProblem& problem = args.problem;
  const uint64_t head = block_index().y;
  const uint64_t kv_head = head / (problem.heads / problem.kv_heads);
  const Heads<T> q = {Global<const T>(problem.q), problem.heads, head, problem.width,
                      problem.tokens_q};
  const Heads<T> k = {Global<const T>(problem.k), problem.kv_heads, kv_head, problem.width,
                      problem.tokens_k};
  const Heads<T> v = {Global<const T>(problem.v), problem.kv_heads, kv_head, problem.width,
                      problem.tokens_k};
  const uint64_t first = uint64_t{block_index().x} * kAttentionTile;
  const TileView view =
      fill_windows(windows, first, [&](int64_t query) { return find_window(problem, query); });
  Sums<kWidth> sums = {};
  float largest[kAttentionOwn];
  float total[kAttentionOwn];
  for (uint32_t i = 0; i < kAttentionOwn; ++i) {
    largest[i] = kNoScore;
    total[i] = 0;
  }
  for (int64_t key = begin_of_keys(problem, view.some.first); key < view.some.last;
       key += kAttentionTile) {
    const auto from = static_cast<uint64_t>(key);
    const bool is_whole = view.is_whole(from);
    draw_kept(problem, head, first, from, kept);
    float weights[kAttentionOwn][kAttentionOwn];
    multiply_heads(q, first, k, from, weights);
    make_scores(
        problem, head, windows, [](uint32_t i, uint32_t) { return Tiles::own_row() + i; },
        [&](uint32_t, uint32_t j) { return from + Tiles::column(j); }, weights);
    for (uint32_t i = 0; i < kAttentionOwn; ++i) {
      const uint32_t row = Tiles::own_row() + i;
      float top = largest[i];
      for (uint32_t j = 0; j < kAttentionOwn; ++j) {
        if (sees(windows, row, from + Tiles::column(j))) top = fmaxf(top, weights[i][j]);
      }
      top = reduce_side<Largest>(top);
      // Scores that are all -infinity get weights of 0.
      if (!(top > kNoScore)) top = kNoScore;
      const float shift = top == kNoScore ? 0 : top;
      float sum = 0;
      for (uint32_t j = 0; j < kAttentionOwn; ++j) {
        weights[i][j] =
            sees(windows, row, from + Tiles::column(j)) ? expf(weights[i][j] - shift) : 0;
        sum += weights[i][j];
        weights[i][j] *= dropout_factor(problem, kept, row, Tiles::column(j));
      }
      const float fading = expf(largest[i] - shift);
      total[i] = total[i] * fading + reduce_side<Sum>(sum);
      for (uint32_t c = 0; c < kWidth / kAttentionSide; ++c) sums[i][c] *= fading;
      largest[i] = top;
    }
    add_weighted<kWidth>(
        weights, v, from,
        [&](uint32_t i, uint64_t row) {
          return is_whole || sees(windows, Tiles::own_row() + i, row);
        },
        sums);
  }
  const Global<float> logsumexp(args.logsumexp);
  for (uint32_t i = 0; i < kAttentionOwn; ++i) {
    const uint64_t query = first + Tiles::own_row() + i;
    const bool is_nothing = total[i] == 0;
    for (uint32_t c = 0; c < kWidth / kAttentionSide; ++c) {
      sums[i][c] = is_nothing ? 0 : sums[i][c] / total[i];
    }
    if (Tiles::side() == 0 && query < problem.tokens_q) {
      logsumexp[head * problem.tokens_q + query] =
          is_nothing ? kNoScore : largest[i] + logf(total[i]);
    }
  }
  store_rows<kWidth, T>(args.out, problem.heads, head, problem.width, problem.tokens_q, first,
                        sums);
}

}  // namespace
}  // namespace keel::simt

#define KEEL_SIMT_ATTENTION(type, T, width)                                      \
  KEEL_SIMT_KERNEL(attention_##type##_##width, keel::simt::AttentionArguments) { \
    keel::simt::attention<width, T>(args);                                       \
  }
#define KEEL_SIMT_ATTENTION_OF(type, T) \
  KEEL_SIMT_ATTENTION(type, T, 64)      \
  KEEL_SIMT_ATTENTION(type, T, 128)     \
  KEEL_SIMT_ATTENTION(type, T, 256)
KEEL_SIMT_ATTENTION_OF(f32, float)
KEEL_SIMT_ATTENTION_OF(bf16, keel::simt::bf16)
KEEL_SIMT_ATTENTION_OF(f16, keel::simt::f16)
#undef KEEL_SIMT_ATTENTION_OF
#undef KEEL_SIMT_ATTENTION

// One warp per row. For in-place calls, vote() orders the warp's reads of the logsumexps before the
// write by one thread.
KEEL_SIMT_KERNEL(attention_merge, keel::simt::AttentionMergeArguments) {
  using namespace keel::simt;
  const Global<const float> a(args.out_a);
  const Global<const float> b(args.out_b);
  const Global<const float> lse_a(args.lse_a);
  const Global<const float> lse_b(args.lse_b);
  const Global<float> out(args.out);
  const Global<float> logsumexp(args.logsumexp);
  for_each_row<WarpTeam>(args.tokens * args.heads, [&](uint64_t row) {
    const uint64_t begin = (row % args.tokens * args.heads + row / args.tokens) * args.width;
    const float left = lse_a[row];
    const float right = lse_b[row];
    const bool has_left = left != kNoScore;
    const bool has_right = right != kNoScore;
    // fmaxf drops NaN here, but the total becomes NaN.
    const float top = fmaxf(left, right);
    const float of_left = has_left ? expf(left - top) : 0;
    const float of_right = has_right ? expf(right - top) : 0;
    const float total = of_left + of_right;
    for (uint64_t c = WarpTeam::rank(); c < args.width; c += WarpTeam::kSize) {
      float sum = 0;
      if (has_left) sum = of_left / total * a[begin + c];
      if (has_right) sum = fmaf(of_right / total, b[begin + c], sum);
      out[begin + c] = sum;
    }
    vote(true);
    if (WarpTeam::rank() == 0) {
      logsumexp[row] = has_left || has_right ? top + logf(total) : kNoScore;
    }
  });
}
