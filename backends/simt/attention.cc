// SPDX-License-Identifier: Apache-2.0
// attention, its gradient, and the merge of partial results: a block of threads makes a tile of
// 64 rows, queries or keys, while tiles of the other side pass by (FlashAttention, see the CPU's).
// A thread has 4 x 4 scores of a pair of tiles and 4 rows of the sums, so that what belongs to a
// row stays with 16 neighbours. 16-bit types are float32 in shared memory and registers, and what
// comes out of them is rounded once. No tensor cores.
#include "backends/simt/simt.h"

namespace keel::simt {
namespace {

constexpr uint32_t kAttentionSide = 16;  // threads along a side of a pair of tiles
constexpr uint32_t kAttentionOwn = kAttentionTile / kAttentionSide;
constexpr uint32_t kAttentionDepth = 16;  // of the heads that shared memory holds
constexpr uint32_t kAttentionPitch = kAttentionTile + 4;
constexpr float kNoScore = -INFINITY;

// Tokens [first, last).
struct Window {
  int64_t first, last;
};

// The largest of |entry| and those before, within the tokens.
KEEL_SIMT_FUNCTION int64_t advance(int64_t so_far, int64_t entry, uint64_t tokens) {
  const int64_t held = entry < static_cast<int64_t>(tokens) ? entry : static_cast<int64_t>(tokens);
  return held > so_far ? held : so_far;
}

// The keys that a query sees.
KEEL_SIMT_FUNCTION Window find_window(const AttentionProblem& problem, int64_t query) {
  int64_t q_first = 0;
  int64_t q_last = static_cast<int64_t>(problem.tokens_q);
  int64_t k_first = 0;
  int64_t k_last = static_cast<int64_t>(problem.tokens_k);
  if (query >= q_last) return {0, 0};
  if (problem.cu_seqlens_q != 0) {
    const Global<const int32_t> of_q(problem.cu_seqlens_q);
    const Global<const int32_t> of_k(problem.cu_seqlens_k);
    // The sequence ends at the first entry above the query.
    q_first = advance(0, of_q[0], problem.tokens_q);
    k_first = advance(0, of_k[0], problem.tokens_k);
    if (query < q_first) return {0, 0};
    for (uint64_t s = 1;; ++s) {
      if (s > problem.sequences) return {0, 0};
      q_last = advance(q_first, of_q[s], problem.tokens_q);
      k_last = advance(k_first, of_k[s], problem.tokens_k);
      if (query < q_last) break;
      q_first = q_last;
      k_first = k_last;
    }
  }
  if (problem.causal != 0) {
    const int64_t last = k_last - (q_last - query) + 1;
    if (last < k_last) k_last = last > k_first ? last : k_first;
  }
  return {k_first, k_last};
}

// Of the 16 threads that have the same rows.
template <typename Operation>
KEEL_SIMT_FUNCTION float reduce_side(float value) {
  for (uint32_t mask = kAttentionSide / 2; mask != 0; mask /= 2) {
    value = Operation::of(value, shuffle_xor(value, mask));
  }
  return value;
}

// Where a tile of a tensor [tokens, heads, d] begins, and its steps.
template <typename T>
struct Heads {
  Global<const T> data;
  uint64_t heads, head, width, tokens;

  KEEL_SIMT_FUNCTION float at(uint64_t token, uint64_t column) const {
    if (token >= tokens || column >= width) return 0;
    return to_float(data[(token * heads + head) * width + column]);
  }
};

// What of a pair of tiles is a thread's.
struct Tiles {
  KEEL_SIMT_FUNCTION static uint32_t own_row() {
    return thread_index().x / kAttentionSide * kAttentionOwn;
  }
  KEEL_SIMT_FUNCTION static uint32_t side() { return thread_index().x % kAttentionSide; }
  // Columns are dealt out one by one, so that neighbours store neighbours.
  KEEL_SIMT_FUNCTION static uint32_t column(uint32_t j) { return side() + kAttentionSide * j; }
};

// products[i][j] = a[a_first + own_row + i] . b[b_first + column j].
template <typename T>
KEEL_SIMT_FUNCTION void multiply_heads(const Heads<T>& a, uint64_t a_first, const Heads<T>& b,
                                       uint64_t b_first,
                                       float (&products)[kAttentionOwn][kAttentionOwn]) {
  KEEL_SIMT_SHARED(float, a_tile, kAttentionDepth* kAttentionPitch);
  KEEL_SIMT_SHARED(float, b_tile, kAttentionDepth* kAttentionPitch);
  for (uint32_t i = 0; i < kAttentionOwn; ++i) {
    for (uint32_t j = 0; j < kAttentionOwn; ++j) products[i][j] = 0;
  }
  for (uint64_t from = 0; from < a.width; from += kAttentionDepth) {
    barrier();  // the tiles before have been read
    for (uint32_t e = thread_index().x; e < kAttentionTile * kAttentionDepth; e += kThreads) {
      const uint32_t row = e / kAttentionDepth;
      const uint32_t step = e % kAttentionDepth;
      a_tile[step * kAttentionPitch + row] = a.at(a_first + row, from + step);
      b_tile[step * kAttentionPitch + row] = b.at(b_first + row, from + step);
    }
    barrier();
    for (uint32_t step = 0; step < kAttentionDepth; ++step) {
      float left[kAttentionOwn];
      float right[kAttentionOwn];
      for (uint32_t i = 0; i < kAttentionOwn; ++i) {
        left[i] = a_tile[step * kAttentionPitch + Tiles::own_row() + i];
        right[i] = b_tile[step * kAttentionPitch + Tiles::column(i)];
      }
      for (uint32_t i = 0; i < kAttentionOwn; ++i) {
        for (uint32_t j = 0; j < kAttentionOwn; ++j) {
          products[i][j] = fmaf(left[i], right[j], products[i][j]);
        }
      }
    }
  }
}

// The sums of a thread: its rows, and every 16th column.
template <uint32_t kWidth>
using Sums = float[kAttentionOwn][kWidth / kAttentionSide];

// sums[i] += the sum over the other side's rows, from |first| on, of their weights times them.
// Where |counts(i, row)| is false the other's row has no effect, NaN included.
template <uint32_t kWidth, typename T, typename Counts>
KEEL_SIMT_FUNCTION void add_weighted(const float (&weights)[kAttentionOwn][kAttentionOwn],
                                     const Heads<T>& rows, uint64_t first, const Counts& counts,
                                     Sums<kWidth>& sums) {
  KEEL_SIMT_SHARED(float, weight_tile, kAttentionTile* kAttentionPitch);
  KEEL_SIMT_SHARED(float, row_tile, kAttentionRows* kWidth);
  barrier();  // what was there before has been read
  for (uint32_t i = 0; i < kAttentionOwn; ++i) {
    for (uint32_t j = 0; j < kAttentionOwn; ++j) {
      weight_tile[(Tiles::own_row() + i) * kAttentionPitch + Tiles::column(j)] = weights[i][j];
    }
  }
  for (uint32_t from = 0; from < kAttentionTile; from += kAttentionRows) {
    barrier();
    for (uint32_t e = thread_index().x; e < kAttentionRows * kWidth; e += kThreads) {
      row_tile[e] = rows.at(first + from + e / kWidth, e % kWidth);
    }
    barrier();
    for (uint32_t row = 0; row < kAttentionRows; ++row) {
      float values[kWidth / kAttentionSide];
      for (uint32_t c = 0; c < kWidth / kAttentionSide; ++c) {
        values[c] = row_tile[row * kWidth + Tiles::column(c)];
      }
      for (uint32_t i = 0; i < kAttentionOwn; ++i) {
        if (!counts(i, first + from + row)) continue;
        const float weight = weight_tile[(Tiles::own_row() + i) * kAttentionPitch + from + row];
        for (uint32_t c = 0; c < kWidth / kAttentionSide; ++c) {
          sums[i][c] = fmaf(weight, values[c], sums[i][c]);
        }
      }
    }
  }
}

template <uint32_t kWidth, typename T>
KEEL_SIMT_FUNCTION void store_rows(Address to, uint64_t heads, uint64_t head, uint64_t width,
                                   uint64_t tokens, uint64_t first, const Sums<kWidth>& sums) {
  const Global<T> out(to);
  for (uint32_t i = 0; i < kAttentionOwn; ++i) {
    const uint64_t token = first + Tiles::own_row() + i;
    if (token >= tokens) break;
    for (uint32_t c = 0; c < kWidth / kAttentionSide; ++c) {
      const uint64_t column = Tiles::column(c);
      if (column < width) {
        out[(token * heads + head) * width + column] = Round<T>::of(sums[i][c]);
      }
    }
  }
}

// What the queries of a tile see: some of them, and all of them.
struct TileView {
  Window some, all;

  KEEL_SIMT_FUNCTION bool is_whole(uint64_t first_key) const {
    const auto key = static_cast<int64_t>(first_key);
    return all.first <= key && key + int64_t{kAttentionTile} <= all.last;
  }
};

// The windows of the queries of a tile into |cells|, and the same view of them for all threads of
// the block. |find(query)| is a query's window.
template <typename Cells, typename Find>
KEEL_SIMT_FUNCTION TileView fill_windows(Cells& cells, uint64_t first, const Find& find) {
  barrier();  // the windows before have been read
  if (thread_index().x < kAttentionTile) {
    const Window own = find(static_cast<int64_t>(first + thread_index().x));
    cells[2 * thread_index().x] = own.first;
    cells[2 * thread_index().x + 1] = own.last;
  }
  barrier();
  TileView view = {{INT64_MAX, 0}, {0, INT64_MAX}};
  for (uint32_t i = 0; i < kAttentionTile; ++i) {
    const int64_t begin = cells[2 * i];
    const int64_t end = cells[2 * i + 1];
    if (begin > view.all.first) view.all.first = begin;
    if (end < view.all.last) view.all.last = end;
    if (begin == end) continue;
    if (begin < view.some.first) view.some.first = begin;
    if (end > view.some.last) view.some.last = end;
  }
  return view;
}

template <typename Cells>
KEEL_SIMT_FUNCTION bool sees(const Cells& windows, uint32_t row, uint64_t key) {
  return static_cast<int64_t>(key) >= windows[2 * row] &&
         static_cast<int64_t>(key) < windows[2 * row + 1];
}

template <uint32_t kWidth, typename T>
KEEL_SIMT_FUNCTION void attention(const AttentionArguments& args) {
  KEEL_SIMT_SHARED(int64_t, windows, 2 * kAttentionTile);
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
  for (int64_t key = view.some.first; key < view.some.last; key += kAttentionTile) {
    const auto from = static_cast<uint64_t>(key);
    const bool is_whole = view.is_whole(from);
    float weights[kAttentionOwn][kAttentionOwn];
    multiply_heads(q, first, k, from, weights);
    for (uint32_t i = 0; i < kAttentionOwn; ++i) {
      const uint32_t row = Tiles::own_row() + i;
      float top = largest[i];
      for (uint32_t j = 0; j < kAttentionOwn; ++j) {
        weights[i][j] *= problem.scale;
        if (sees(windows, row, from + Tiles::column(j))) top = fmaxf(top, weights[i][j]);
      }
      top = reduce_side<Largest>(top);
      // Scores that are all -infinity have weights of 0.
      if (!(top > kNoScore)) top = kNoScore;
      const float shift = top == kNoScore ? 0 : top;
      float sum = 0;
      for (uint32_t j = 0; j < kAttentionOwn; ++j) {
        weights[i][j] =
            sees(windows, row, from + Tiles::column(j)) ? expf(weights[i][j] - shift) : 0;
        sum += weights[i][j];
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

// ---- backward ------------------------------------------------------------------

// delta[head, query] = dout . out, which both passes want.
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

// The tensors of a head of queries and the head of keys that it shares.
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
  KEEL_SIMT_SHARED(int64_t, windows, 2 * kAttentionTile);
  const AttentionProblem& problem = args.problem;
  const uint64_t head = block_index().y;
  const BackwardHeads<T> heads(args, head);
  const uint64_t first = uint64_t{block_index().x} * kAttentionTile;
  const TileView view = fill_windows(windows, first, [&](int64_t query) {
    return gradient_window(problem, heads.logsumexp, query);
  });
  Sums<kWidth> sums = {};
  for (int64_t key = view.some.first; key < view.some.last; key += kAttentionTile) {
    const auto from = static_cast<uint64_t>(key);
    const bool is_whole = view.is_whole(from);
    float slopes[kAttentionOwn][kAttentionOwn];
    float of_values[kAttentionOwn][kAttentionOwn];
    multiply_heads(heads.q, first, heads.k, from, slopes);
    multiply_heads(heads.dout, first, heads.v, from, of_values);
    for (uint32_t i = 0; i < kAttentionOwn; ++i) {
      const uint32_t row = Tiles::own_row() + i;
      for (uint32_t j = 0; j < kAttentionOwn; ++j) {
        if (!sees(windows, row, from + Tiles::column(j))) {
          slopes[i][j] = 0;
          continue;
        }
        const float p = expf(slopes[i][j] * problem.scale - heads.logsumexp[first + row]);
        slopes[i][j] = problem.scale * p * (of_values[i][j] - heads.delta[first + row]);
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

// All heads of a group one by one, and of each the queries in order.
template <uint32_t kWidth, typename T>
KEEL_SIMT_FUNCTION void attention_dk_dv(const AttentionBackwardArguments& args) {
  KEEL_SIMT_SHARED(int64_t, windows, 2 * kAttentionTile);
  const AttentionProblem& problem = args.problem;
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
        continue;  // the whole block does
      }
      float weights[kAttentionOwn][kAttentionOwn];
      float slopes[kAttentionOwn][kAttentionOwn];
      multiply_heads(heads.k, first, heads.q, from, weights);
      multiply_heads(heads.v, first, heads.dout, from, slopes);
      for (uint32_t j = 0; j < kAttentionOwn; ++j) {
        const uint32_t query = Tiles::column(j);
        for (uint32_t i = 0; i < kAttentionOwn; ++i) {
          if (!sees(windows, query, first + Tiles::own_row() + i)) {
            weights[i][j] = 0;
            slopes[i][j] = 0;
            continue;
          }
          const float p = expf(weights[i][j] * problem.scale - heads.logsumexp[from + query]);
          weights[i][j] = p;
          slopes[i][j] = problem.scale * p * (slopes[i][j] - heads.delta[from + query]);
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

#define KEEL_SIMT_ATTENTION(type, T, width)                                                    \
  KEEL_SIMT_KERNEL(attention_##type##_##width, keel::simt::AttentionArguments) {               \
    keel::simt::attention<width, T>(args);                                                     \
  }                                                                                            \
  KEEL_SIMT_KERNEL(attention_dq_##type##_##width, keel::simt::AttentionBackwardArguments) {    \
    keel::simt::attention_dq<width, T>(args);                                                  \
  }                                                                                            \
  KEEL_SIMT_KERNEL(attention_dk_dv_##type##_##width, keel::simt::AttentionBackwardArguments) { \
    keel::simt::attention_dk_dv<width, T>(args);                                               \
  }
#define KEEL_SIMT_ATTENTION_OF(type, T)                                              \
  KEEL_SIMT_ATTENTION(type, T, 64)                                                   \
  KEEL_SIMT_ATTENTION(type, T, 128)                                                  \
  KEEL_SIMT_ATTENTION(type, T, 256)                                                  \
  KEEL_SIMT_KERNEL(attention_delta_##type, keel::simt::AttentionBackwardArguments) { \
    keel::simt::attention_delta<T>(args);                                            \
  }
KEEL_SIMT_ATTENTION_OF(f32, float)
KEEL_SIMT_ATTENTION_OF(bf16, keel::simt::bf16)
KEEL_SIMT_ATTENTION_OF(f16, keel::simt::f16)
#undef KEEL_SIMT_ATTENTION_OF
#undef KEEL_SIMT_ATTENTION

// A warp a row. In place, all of it has read the logsumexps before one thread writes.
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
    // NaN loses here, and makes the total NaN.
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
