// SPDX-License-Identifier: Apache-2.0
// Shared parts of attention and its gradient on the CPU: the keys visible to a query, heads of
// tensors as matrices, and the products of a block of queries and a block of keys.
//
// Blocks ignore the boundaries of packed sequences: each query has a window of visible keys, and
// the causal mask is a window too. One code path therefore serves packed, causal and full
// attention; a partly visible block is masked.
#ifndef KEEL_BACKENDS_CPU_OPS_ATTENTION_H_
#define KEEL_BACKENDS_CPU_OPS_ATTENTION_H_

#include <keel/abi.h>

#include <cstdint>
#include <keel/plugin_kit.hpp>

#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/runtime/stream.h"

namespace keel::cpu::attention {

// The limit of the schema.
inline constexpr int64_t kMaxWidth = 256;
// Block size: 128 KiB of scores stay in the second-level cache, and the products spend most of
// their time multiplying. Fixed, so that results do not depend on the machine.
inline constexpr int64_t kQueries = 128;
inline constexpr int64_t kKeys = 256;
// The keys [first, last) visible to a query; empty if first == last.
struct Window {
  int64_t first, last;
  int64_t mask = 0;  // offset of the query's row of the mask, of head 0 and from key 0 on
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

  // Returns false for any other layout. Leaves |data| NULL.
  static bool describe(const keel_tensor& tensor, Heads* out_heads);
  static Heads of(const Stream& stream, const keel_tensor& tensor);

  char* at(int64_t token, int64_t head) const;
  // Tokens of one head as float32, [count, width]: in place, or widened into |scratch|, which holds
  // count * width floats.
  gemm::Matrix rows(Span tokens, int64_t head, float* scratch) const;
  // Like rows, but always copied into |scratch| as a dense matrix. For rows that are read several
  // times: in place, the rows of many heads share few cache sets and each row lies in a page of its
  // own. Also for the operand that weights multiply: dense operands are the fastest.
  gemm::Matrix gathered(Span tokens, int64_t head, float* scratch) const;
  // Rounds |values| to the dtype and stores them as the head of a token.
  void store(int64_t token, int64_t head, const float* values) const;
};

// The mask, whose rows are dense. Strides are in elements, and 0 where one row serves all.
struct Mask {
  const float* data = nullptr;  // NULL: no mask
  int64_t sequence_stride = 0, head_stride = 0, query_stride = 0;
  // Queries and keys of each sequence that are not hidden.
  int64_t queries = INT64_MAX, keys = INT64_MAX;

  // Whether |tensor|, NULL for none, has that layout.
  static bool supports(const keel_tensor* tensor);
  static Mask of(const Stream& stream, const keel_tensor* tensor);

  // Adds the mask to |count| scores of a query of |head|, of the keys from |key| on.
  void add(const Window& query, int64_t head, int64_t key, float* scores, int64_t count) const;
};

// Dropout of the weights. Each query of a head has a row of elements, which begins at a counter.
struct Dropout {
  int64_t row = 0;  // elements; 0: no weight is dropped
  kernels::DropoutMask mask = {};

  static Dropout of(const keel_op_call& call);
};

struct Problem {
  Heads q, k, v;
  const int32_t *cu_seqlens_q, *cu_seqlens_k;  // NULL: one sequence
  int64_t sequences;
  int64_t tokens_q, tokens_k, heads, kv_heads;
  float scale;
  bool causal;
  Window* windows;  // one per query, in the call's workspace
  Mask mask;
  Dropout dropout;

  // Whether a kernel takes the call. Inputs 0 to 2 are q, k and v; inputs |cu_seqlens| and
  // |cu_seqlens| + 1 are the sequence boundaries, and the next input is the mask. Reads no tensor
  // data.
  static bool supports(const keel_op_call& call, uint32_t cu_seqlens);
  static uint64_t workspace_bytes(const keel_op_call& call);
  static Problem of(const Stream& stream, const keel_op_call& call, uint32_t cu_seqlens,
                    void* workspace);

  // Fills |windows|. Call before any block is processed.
  void find_windows() const;
  int64_t kv_head(int64_t head) const { return head / (heads / kv_heads); }
  // The weight's element of dropout.
  int64_t element(int64_t head, int64_t query, int64_t key) const {
    return (head * tokens_q + query) * dropout.row + key;
  }
};

// A span of queries and a span of keys; a query may see only part of the keys.
struct Block {
  Span queries, keys;
  const Window* windows;  // of the queries

  // Columns [first, last) of the scores visible to query |row| of the block.
  Window visible(int64_t row) const;
  // Offset of query |row| in the block's dense scores.
  int64_t at(int64_t row) const { return row * keys.count; }
  // Whether every query sees every key.
  bool is_whole() const;
};

// Shrinks |some| to the queries from the first to the last that see any of |keys|, and |keys| to
// the keys that those queries see. Returns no queries if none sees a key.
Block narrow(const Window* windows, Span some, Span keys);
// The range of keys that any of |queries| sees.
Span seen_by(const Window* windows, Span queries);

// The products throw std::bad_alloc.

// scores[i, j] = scale * a[i] . b[j] for the queries a and keys b of a block; [queries, keys].
void multiply_heads(const Block& block, gemm::Matrix a, gemm::Matrix b, int64_t width, float scale,
                    float* scores);

// The side for which add_weighted sums weighted rows.
enum class Sums { kOfQueries, kOfKeys };
// kOfQueries: adds to each query's row of |sums| the sum over the keys of weights[i, j] times the
// key's row of |rows|. kOfKeys: adds to each key's row of |sums| the sum over the queries of
// weights[i, j] times the query's row of |rows|. Rows have |width| elements. Weights outside the
// windows are 0, and the rows that they multiply have no effect, NaN and infinities included.
void add_weighted(const Block& block, const float* weights, gemm::Matrix rows, Sums which,
                  int64_t width, float* sums);

}  // namespace keel::cpu::attention

#endif  // KEEL_BACKENDS_CPU_OPS_ATTENTION_H_
