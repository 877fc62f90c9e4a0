// SPDX-License-Identifier: Apache-2.0
// The gradient of attention: see attention.h.
#include "kernels/gpu/attention.h"

namespace keel::simt {
namespace {

// delta[head, query] = dout . out, which both later passes read.
template <typename T>
KEEL_SIMT_FUNCTION void attention_delta(const AttentionBackwardArguments& args) {
  const AttentionProblem& problem = args.problem;
  const Global<const T> out(args.out);
  const Global<const T> dout(args.dout);
  const Global<float> delta(args.delta);
  for_each_row<WarpTeam>(problem.heads * problem.tokens_q, [&](uint64_t row) {
    const uint64_t head = row / problem.tokens_q;
    const uint64_t begin = (row % problem.tokens_q * problem.heads + head) * problem.width;
    float own = 0;
    for (uint64_t c = WarpTeam::rank(); c < problem.width; c += WarpTeam::kSize) {
      own = fmaf(to_float(out[begin + c]), to_float(dout[begin + c]), own);
    }
    own = WarpTeam::reduce<Sum>(own);
    if (WarpTeam::rank() == 0) delta[row] = own;
  });
}

// The tensors of a query head and of the key head that it shares.
template <typename T>
struct BackwardHeads {
  KEEL_SIMT_FUNCTION BackwardHeads(const AttentionBackwardArguments& args, uint64_t head)
      : q(of_queries(args, args.problem.q, head)),
        dout(of_queries(args, args.dout, head)),
        k(of_keys(args, args.problem.k, head)),
        v(of_keys(args, args.problem.v, head)),
        logsumexp(args.logsumexp + head * args.problem.tokens_q * sizeof(float)),
        delta(args.delta + head * args.problem.tokens_q * sizeof(float)) {}

  Heads<T> q, dout, k, v;
  Global<const float> logsumexp, delta;

 private:
  KEEL_SIMT_FUNCTION static Heads<T> of_queries(const AttentionBackwardArguments& args,
                                                Address data, uint64_t head) {
    const AttentionProblem& problem = args.problem;
    return {Global<const T>(data), problem.heads, head, problem.width, problem.tokens_q};
  }
  KEEL_SIMT_FUNCTION static Heads<T> of_keys(const AttentionBackwardArguments& args, Address data,
                                             uint64_t head) {
    const AttentionProblem& problem = args.problem;
    return {Global<const T>(data), problem.kv_heads, head / (problem.heads / problem.kv_heads),
            problem.width, problem.tokens_k};
  }
};

// A query whose logsumexp is -infinity has no gradient.
KEEL_SIMT_FUNCTION Window gradient_window(const AttentionProblem& problem,
                                          const Global<const float>& logsumexp, int64_t query) {
  if (query >= static_cast<int64_t>(problem.tokens_q)) return {0, 0};
  if (logsumexp[static_cast<uint64_t>(query)] == kNoScore) return {0, 0};
  return find_window(problem, query);
}

template <uint32_t kWidth, typename T>
KEEL_SIMT_FUNCTION void attention_dq(const AttentionBackwardArguments& args) {
  KEEL_SIMT_SHARED(int64_t, windows, kWindowCells * kAttentionTile);
  const AttentionProblem& problem = args.problem;
  KEEL_SIMT_SHARED(uint32_t, kept, kAttentionTile * kKeptWords);
  const uint64_t head = block_index().y;
  const BackwardHeads<T> heads(args, head);
  const uint64_t first = uint64_t{block_index().x} * kAttentionTile;
  const TileView view = fill_windows(windows, first, [&](int64_t query) {
    return gradient_window(problem, heads.logsumexp, query);
  });
  Sums<kWidth> sums = {};
  for (int64_t key = begin_of_keys(problem, view.some.first); key < view.some.last;
       key += kAttentionTile) {
    const auto from = static_cast<uint64_t>(key);
    const bool is_whole = view.is_whole(from);
    draw_kept(problem, head, first, from, kept);
    float slopes[kAttentionOwn][kAttentionOwn];
    float of_values[kAttentionOwn][kAttentionOwn];
    multiply_heads(heads.q, first, heads.k, from, slopes);
    multiply_heads(heads.dout, first, heads.v, from, of_values);
    make_scores(
        problem, head, windows, [](uint32_t i, uint32_t) { return Tiles::own_row() + i; },
        [&](uint32_t, uint32_t j) { return from + Tiles::column(j); }, slopes);
    for (uint32_t i = 0; i < kAttentionOwn; ++i) {
      const uint32_t row = Tiles::own_row() + i;
      for (uint32_t j = 0; j < kAttentionOwn; ++j) {
        if (!sees(windows, row, from + Tiles::column(j))) {
          slopes[i][j] = 0;
          continue;
        }
        const float p = expf(slopes[i][j] - heads.logsumexp[first + row]);
        const float factor = dropout_factor(problem, kept, row, Tiles::column(j));
        slopes[i][j] = problem.scale * p * (factor * of_values[i][j] - heads.delta[first + row]);
      }
    }
    add_weighted<kWidth>(
        slopes, heads.k, from,
        [&](uint32_t i, uint64_t row) {
          return is_whole || sees(windows, Tiles::own_row() + i, row);
        },
        sums);
  }
  store_rows<kWidth, T>(args.dq, problem.heads, head, problem.width, problem.tokens_q, first, sums);
}

// Iterates over the heads of a group, and over each head's queries in order.
template <uint32_t kWidth, typename T>
KEEL_SIMT_FUNCTION void attention_dk_dv(const AttentionBackwardArguments& args) {
  KEEL_SIMT_SHARED(int64_t, windows, kWindowCells * kAttentionTile);
  const AttentionProblem& problem = args.problem;
  KEEL_SIMT_SHARED(uint32_t, kept, kAttentionTile * kKeptWords);
  const uint64_t kv_head = block_index().y;
  const uint64_t group = problem.heads / problem.kv_heads;
  const uint64_t first = uint64_t{block_index().x} * kAttentionTile;
  Sums<kWidth> dk = {};
  Sums<kWidth> dv = {};
  for (uint64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    const BackwardHeads<T> heads(args, head);
    for (uint64_t from = 0; from < problem.tokens_q; from += kAttentionTile) {
      const TileView view = fill_windows(windows, from, [&](int64_t query) {
        return gradient_window(problem, heads.logsumexp, query);
      });
      if (view.some.last <= static_cast<int64_t>(first) ||
          view.some.first >= static_cast<int64_t>(first + kAttentionTile)) {
        continue;  // uniform across the block
      }
      draw_kept(problem, head, from, first, kept);
      float weights[kAttentionOwn][kAttentionOwn];
      float slopes[kAttentionOwn][kAttentionOwn];
      multiply_heads(heads.k, first, heads.q, from, weights);
      multiply_heads(heads.v, first, heads.dout, from, slopes);
      make_scores(
          problem, head, windows, [](uint32_t, uint32_t j) { return Tiles::column(j); },
          [&](uint32_t i, uint32_t) { return first + Tiles::own_row() + i; }, weights);
      for (uint32_t j = 0; j < kAttentionOwn; ++j) {
        const uint32_t query = Tiles::column(j);
        for (uint32_t i = 0; i < kAttentionOwn; ++i) {
          if (!sees(windows, query, first + Tiles::own_row() + i)) {
            weights[i][j] = 0;
            slopes[i][j] = 0;
            continue;
          }
          const float p = expf(weights[i][j] - heads.logsumexp[from + query]);
          const float factor = dropout_factor(problem, kept, query, Tiles::own_row() + i);
          weights[i][j] = factor * p;
          slopes[i][j] = problem.scale * p * (factor * slopes[i][j] - heads.delta[from + query]);
        }
      }
      const bool is_whole = view.is_whole(first);
      const auto counts = [&](uint32_t i, uint64_t query) {
        return is_whole ||
               sees(windows, static_cast<uint32_t>(query - from), first + Tiles::own_row() + i);
      };
      add_weighted<kWidth>(weights, heads.dout, from, counts, dv);
      add_weighted<kWidth>(slopes, heads.q, from, counts, dk);
    }
  }
  store_rows<kWidth, T>(args.dk, problem.kv_heads, kv_head, problem.width, problem.tokens_k, first,
                        dk);
  store_rows<kWidth, T>(args.dv, problem.kv_heads, kv_head, problem.width, problem.tokens_k, first,
                        dv);
}

}  // namespace
}  // namespace keel::simt

#define KEEL_SIMT_ATTENTION_BACKWARD(type, T, width)                                           \
  KEEL_SIMT_KERNEL(attention_dq_##type##_##width, keel::simt::AttentionBackwardArguments) {    \
    keel::simt::attention_dq<width, T>(args);                                                  \
  }                                                                                            \
  KEEL_SIMT_KERNEL(attention_dk_dv_##type##_##width, keel::simt::AttentionBackwardArguments) { \
    keel::simt::attention_dk_dv<width, T>(args);                                               \
  }
#define KEEL_SIMT_ATTENTION_BACKWARD_OF(type, T)                                     \
  KEEL_SIMT_ATTENTION_BACKWARD(type, T, 64)                                          \
  KEEL_SIMT_ATTENTION_BACKWARD(type, T, 128)                                         \
  KEEL_SIMT_ATTENTION_BACKWARD(type, T, 256)                                         \
  KEEL_SIMT_KERNEL(attention_delta_##type, keel::simt::AttentionBackwardArguments) { \
    keel::simt::attention_delta<T>(args);                                            \
  }
KEEL_SIMT_ATTENTION_BACKWARD_OF(f32, float)
KEEL_SIMT_ATTENTION_BACKWARD_OF(bf16, keel::simt::bf16)
KEEL_SIMT_ATTENTION_BACKWARD_OF(f16, keel::simt::f16)
#undef KEEL_SIMT_ATTENTION_BACKWARD_OF
#undef KEEL_SIMT_ATTENTION_BACKWARD
