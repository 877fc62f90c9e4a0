// SPDX-License-Identifier: Apache-2.0
// What attention and its gradient share on the CPU: which keys a query sees, heads of tensors as
// matrices, and the products of a block of queries and a block of keys.
//
// Tokens of packed sequences are cut into blocks without regard to where sequences end: each query
// has a window of keys, and the causal mask is a window too. So one path serves them all, and a
// block that is seen in part is masked.
#ifndef KEEL_BACKENDS_CPU_ATTENTION_H_
#define KEEL_BACKENDS_CPU_ATTENTION_H_

#include <keel/abi.h>

#include <cstdint>
#include <keel/plugin_kit.hpp>

#include "backends/cpu/gemm.h"
#include "backends/cpu/stream.h"

namespace keel::cpu::attention {

// Of the schema.
inline constexpr int64_t kMaxWidth = 256;
// A block: 128 KiB of scores, which stay in the second-level cache, and products of which most
// time is multiplying. Fixed, so that results do not depend on the machine.
inline constexpr int64_t kQueries = 128;
inline constexpr int64_t kKeys = 256;
// The keys [first, last) that a query sees; none where they are equal.
struct Window {
  int64_t first, last;
};

// Tokens first, first + 1, ... first + count - 1.
struct Span {
  int64_t first, count;
  int64_t end() const { return first + count; }
};

// A tensor [tokens, heads, d] whose heads are dense.
struct Heads {
  char* data;
  keel_dtype dtype;
  int64_t token_stride, head_stride;  // in elements
  int64_t width;

  // False for what is laid out otherwise; |data| stays NULL.
  static bool describe(const keel_tensor& tensor, Heads* out_heads);
  static Heads of(const Stream& stream, const keel_tensor& tensor);

  char* at(int64_t token, int64_t head) const;
  // Tokens of one head as float32, [count, width]: in place, or widened into |scratch|, which has
  // room for it.
  gemm::Matrix rows(Span tokens, int64_t head, float* scratch) const;
  // The same always in |scratch|, one behind the other: what is read several times, since in place
  // the rows of many heads lie in few sets of the caches and each in a page of its own; and what is
  // multiplied with weights, of which dense operands are the fastest.
  gemm::Matrix gathered(Span tokens, int64_t head, float* scratch) const;
  // Rounds |values| into the head of a token.
  void store(int64_t token, int64_t head, const float* values) const;
};

struct Problem {
  Heads q, k, v;
  const int32_t *cu_seqlens_q, *cu_seqlens_k;  // NULL: one sequence
  int64_t sequences;
  int64_t tokens_q, tokens_k, heads, kv_heads;
  float scale;
  bool causal;
  Window* windows;  // one a query, in the call's workspace

  // Of inputs q, k, v and, from input |cu_seqlens| on, the boundaries; false where no kernel takes
  // it. Touches no data.
  static bool supports(const keel_op_call& call, uint32_t cu_seqlens);
  static uint64_t workspace_bytes(const keel_op_call& call);
  static Problem of(const Stream& stream, const keel_op_call& call, uint32_t cu_seqlens,
                    void* workspace);

  // Fills |windows|; before any block.
  void find_windows() const;
  int64_t kv_head(int64_t head) const { return head / (heads / kv_heads); }
};

// Some queries and some keys, of which they see some.
struct Block {
  Span queries, keys;
  const Window* windows;  // of the queries

  // Columns [first, last) of the scores that query |row| of the block sees.
  Window visible(int64_t row) const;
  // The row of query |row| in scores of the block, which are dense.
  int64_t at(int64_t row) const { return row * keys.count; }
  // Whether every query sees every key.
  bool is_whole() const;
};

// The queries among |some| that see any of |keys|, from the first of them to the last, and the
// keys that any of those sees; no query where none does.
Block narrow(const Window* windows, Span some, Span keys);
// The keys that any of |queries| sees.
Span seen_by(const Window* windows, Span queries);

// Products, which throw std::bad_alloc.

// scores[i, j] = scale * a[i] . b[j] for the queries a and keys b of a block; [queries, keys].
void multiply_heads(const Block& block, gemm::Matrix a, gemm::Matrix b, int64_t width, float scale,
                    float* scores);

// What weighted heads are summed for.
enum class Sums { kOfQueries, kOfKeys };
// For each query, the sum over the keys, or for each key the sum over the queries, of weights[i, j]
// times the other side's row of |rows|, added to |sums|, rows of |width|. Weights outside the
// windows are 0, and what they are multiplied with has no effect, NaN and infinities included.
void add_weighted(const Block& block, const float* weights, gemm::Matrix rows, Sums which,
                  int64_t width, float* sums);

}  // namespace keel::cpu::attention

#endif  // KEEL_BACKENDS_CPU_ATTENTION_H_
