// SPDX-License-Identifier: Apache-2.0
// Tiles of attention: a block of threads computes a tile of 64 rows, of queries or keys, and
// iterates over the tiles of the opposite side (FlashAttention, see the CPU's). A thread holds 4 x
// 4 scores of a pair of tiles and 4 rows of the sums, so each row is shared by 16 adjacent threads.
// 16-bit types are float32 in shared memory and registers, and rounded once at the end. No tensor
// cores.
#ifndef KEEL_KERNELS_GPU_ATTENTION_H_
#define KEEL_KERNELS_GPU_ATTENTION_H_

#include "kernels/gpu/philox.h"
#include "kernels/gpu/simt.h"

namespace keel::simt {

inline constexpr uint32_t kAttentionSide = 16;  // threads along a side of a pair of tiles
inline constexpr uint32_t kAttentionOwn = kAttentionTile / kAttentionSide;
inline constexpr uint32_t kAttentionDepth = 16;  // columns of the heads in shared memory
inline constexpr uint32_t kAttentionPitch = kAttentionTile + 4;
inline constexpr float kNoScore = -INFINITY;

// Tokens [first, last).
struct Window {
  int64_t first, last;
  int64_t mask = 0;  // of a query: offset of its row of the mask, of head 0 and from key 0 on
};
// Numbers of a window in shared memory.
inline constexpr uint32_t kWindowCells = 3;

// Returns the maximum of |entry|, clamped to |tokens|, and all earlier entries (|so_far|).
KEEL_SIMT_FUNCTION int64_t advance(int64_t so_far, int64_t entry, uint64_t tokens) {
  const int64_t held = entry < static_cast<int64_t>(tokens) ? entry : static_cast<int64_t>(tokens);
  return held > so_far ? held : so_far;
}

// Returns the keys visible to a query.
KEEL_SIMT_FUNCTION Window find_window(const AttentionProblem& problem, int64_t query) {
  int64_t q_first = 0;
  int64_t q_last = static_cast<int64_t>(problem.tokens_q);
  int64_t k_first = 0;
  int64_t k_last = static_cast<int64_t>(problem.tokens_k);
  int64_t sequence = 0;
  if (query >= q_last) return {0, 0};
  if (problem.cu_seqlens_q != 0) {
    const Global<const int32_t> of_q(problem.cu_seqlens_q);
    const Global<const int32_t> of_k(problem.cu_seqlens_k);
    // The query's sequence ends at the first entry above |query|.
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
      ++sequence;
    }
  }
  if (problem.causal != 0) {
    const int64_t last = k_last - (q_last - query) + 1;
    if (last < k_last) k_last = last > k_first ? last : k_first;
  }
  const AttentionMask& mask = problem.mask;
  const int64_t row = query - q_first;
  if (row >= mask.queries) k_last = k_first;
  if (k_last - k_first > mask.keys) k_last = k_first + mask.keys;
  return {k_first, k_last, sequence * mask.sequence_stride + row * mask.query_stride - k_first};
}

// Reduces over the 16 threads of the same rows.
template <typename Operation>
KEEL_SIMT_FUNCTION float reduce_side(float value) {
  for (uint32_t mask = kAttentionSide / 2; mask != 0; mask /= 2) {
    value = Operation::of(value, shuffle_xor(value, mask));
  }
  return value;
}

// One head of a tensor [tokens, heads, d]; elements outside read as 0.
template <typename T>
struct Heads {
  Global<const T> data;
  uint64_t heads, head, width, tokens;

  KEEL_SIMT_FUNCTION float at(uint64_t token, uint64_t column) const {
    if (token >= tokens || column >= width) return 0;
    return to_float(data[(token * heads + head) * width + column]);
  }
};

// The mapping of a thread to its elements of a pair of tiles.
struct Tiles {
  KEEL_SIMT_FUNCTION static uint32_t own_row() {
    return thread_index().x / kAttentionSide * kAttentionOwn;
  }
  KEEL_SIMT_FUNCTION static uint32_t side() { return thread_index().x % kAttentionSide; }
  // Columns are interleaved, so that adjacent threads store adjacent elements.
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
    barrier();  // all threads have read the previous tiles
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

// A thread's sums: its rows, and every 16th column.
template <uint32_t kWidth>
using Sums = float[kAttentionOwn][kWidth / kAttentionSide];

// sums[i] += the weighted sum of the opposite side's rows from |first| on. If |counts(i, row)| is
// false, the opposite row has no effect, even if it holds NaN.
template <uint32_t kWidth, typename T, typename Counts>
KEEL_SIMT_FUNCTION void add_weighted(const float (&weights)[kAttentionOwn][kAttentionOwn],
                                     const Heads<T>& rows, uint64_t first, const Counts& counts,
                                     Sums<kWidth>& sums) {
  KEEL_SIMT_SHARED(float, weight_tile, kAttentionTile* kAttentionPitch);
  KEEL_SIMT_SHARED(float, row_tile, kAttentionRows* kWidth);
  barrier();  // all threads have read the previous contents
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

// The keys visible to a tile's queries: |some| to at least one query, |all| to every query.
struct TileView {
  Window some, all;

  KEEL_SIMT_FUNCTION bool is_whole(uint64_t first_key) const {
    const auto key = static_cast<int64_t>(first_key);
    return all.first <= key && key + int64_t{kAttentionTile} <= all.last;
  }
};

// Stores the windows of a tile's queries in |cells|, and returns their TileView, the same for all
// threads of the block. |find(query)| returns a query's window.
template <typename Cells, typename Find>
KEEL_SIMT_FUNCTION TileView fill_windows(Cells& cells, uint64_t first, const Find& find) {
  barrier();  // all threads have read the previous windows
  if (thread_index().x < kAttentionTile) {
    const Window own = find(static_cast<int64_t>(first + thread_index().x));
    const uint32_t at = kWindowCells * thread_index().x;
    cells[at] = own.first;
    cells[at + 1] = own.last;
    cells[at + 2] = own.mask;
  }
  barrier();
  TileView view = {{INT64_MAX, 0}, {0, INT64_MAX}};
  for (uint32_t i = 0; i < kAttentionTile; ++i) {
    const int64_t begin = cells[kWindowCells * i];
    const int64_t end = cells[kWindowCells * i + 1];
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
  return static_cast<int64_t>(key) >= windows[kWindowCells * row] &&
         static_cast<int64_t>(key) < windows[kWindowCells * row + 1];
}

// Makes a thread's products scores: scales them and adds the mask of |head|. Product [i][j] is that
// of the tile's query |row_of(i, j)| and of key |key_of(i, j)|.
template <typename Cells, typename RowOf, typename KeyOf>
KEEL_SIMT_FUNCTION void make_scores(const AttentionProblem& problem, uint64_t head,
                                    const Cells& windows, const RowOf& row_of, const KeyOf& key_of,
                                    float (&products)[kAttentionOwn][kAttentionOwn]) {
  for (uint32_t i = 0; i < kAttentionOwn; ++i) {
    for (uint32_t j = 0; j < kAttentionOwn; ++j) products[i][j] *= problem.scale;
  }
  if (problem.mask.data == 0) return;
  const Global<const float> mask(problem.mask.data);
  const int64_t of_head = static_cast<int64_t>(head) * problem.mask.head_stride;
  for (uint32_t i = 0; i < kAttentionOwn; ++i) {
    for (uint32_t j = 0; j < kAttentionOwn; ++j) {
      const uint32_t row = row_of(i, j);
      const uint64_t key = key_of(i, j);
      if (!sees(windows, row, key)) continue;
      const int64_t at = windows[kWindowCells * row + 2] + of_head + static_cast<int64_t>(key);
      products[i][j] += mask[static_cast<uint64_t>(at)];
    }
  }
}

// ---- dropout ----------------------------------------------------------------------

// Counters of Philox whose bits one word of shared memory holds, and words of a query.
inline constexpr uint32_t kKeptCounters = 4;
inline constexpr uint32_t kKeptKeys = 4 * kKeptCounters;
inline constexpr uint32_t kKeptWords = kAttentionTile / kKeptKeys;

// Draws the weights that a tile of queries and a tile of keys keep, a bit each, if there is
// dropout. |first_key| is a multiple of 4. Other threads see |kept| after the next barrier.
template <typename Cells>
KEEL_SIMT_FUNCTION void draw_kept(const AttentionProblem& problem, uint64_t head,
                                  uint64_t first_query, uint64_t first_key, Cells& kept) {
  const AttentionDropout& dropout = problem.dropout;
  if (dropout.counters == 0) return;
  const uint64_t first_row = head * problem.tokens_q + first_query;
  for (uint32_t e = thread_index().x; e < kAttentionTile * kKeptWords; e += kThreads) {
    const uint64_t counter = dropout.offset + (first_row + e / kKeptWords) * dropout.counters +
                             first_key / 4 + e % kKeptWords * kKeptCounters;
    uint32_t bits = 0;
    for (uint32_t i = 0; i < kKeptCounters; ++i) {
      const Philox random(counter + i, dropout.seed);
      for (uint32_t word = 0; word < 4; ++word) {
        if (random.words[word] >= dropout.threshold) bits |= 1U << (4 * i + word);
      }
    }
    kept[e] = bits;
  }
}

// The factor of a weight: of query |row| and key |column| of the tiles.
template <typename Cells>
KEEL_SIMT_FUNCTION float dropout_factor(const AttentionProblem& problem, const Cells& kept,
                                        uint32_t row, uint32_t column) {
  if (problem.dropout.counters == 0) return 1;
  const uint32_t bits = kept[row * kKeptWords + column / kKeptKeys];
  return (bits >> column % kKeptKeys & 1U) != 0 ? problem.dropout.factor : 0;
}

// The key at which the tiles of keys begin that queries see from |key| on.
KEEL_SIMT_FUNCTION int64_t begin_of_keys(const AttentionProblem& problem, int64_t key) {
  return problem.dropout.counters == 0 ? key : key & ~int64_t{3};
}

}  // namespace keel::simt

#endif  // KEEL_KERNELS_GPU_ATTENTION_H_
