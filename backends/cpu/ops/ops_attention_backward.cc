// SPDX-License-Identifier: Apache-2.0
// attention_backward. Recomputes the probabilities from logsumexp, for a block of queries and a
// block of keys at a time. If there are enough heads for all cores, one pass over the blocks of a
// head computes its three gradients, with five products per block. Otherwise one pass over the
// queries computes dq and one pass over the keys computes dk and dv: seven products, but each block
// of tokens is a separate piece of work. In both cases each sum has one owner and the same terms in
// the same order.
#include <algorithm>
#include <array>
#include <keel/plugin_kit.hpp>
#include <limits>

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/ops/attention.h"
#include "backends/cpu/ops/ops.h"
#include "backends/cpu/runtime/scratch.h"

namespace keel::cpu {
namespace {

using attention::Block;
using attention::Heads;
using attention::kKeys;
using attention::kQueries;
using attention::Problem;
using attention::Span;
using attention::Sums;
using attention::Window;

constexpr float kNothing = -std::numeric_limits<float>::infinity();

struct Backward {
  Problem problem;
  char *out, *dout, *dq, *dk, *dv;  // dense
  const float* logsumexp;
  float* dq_sums;  // [heads, tokens, width], in the call's workspace

  Heads of_queries(char* data) const { return dense(data, problem.heads); }
  Heads of_keys(char* data) const { return dense(data, problem.kv_heads); }
  float* dq_sums_of(int64_t query, int64_t head) const {
    return dq_sums + (head * problem.tokens_q + query) * problem.q.width;
  }

 private:
  Heads dense(char* data, int64_t heads) const {
    const int64_t width = problem.q.width;
    return {data, problem.q.dtype, heads * width, width, width};
  }
};

// The rows from |row| on.
gemm::Matrix from(gemm::Matrix rows, int64_t row) {
  rows.data = static_cast<float*>(rows.data) + row * rows.stride;
  return rows;
}

// A span of queries and a span of keys of a head, the probabilities and score slopes where queries
// see keys, and the contributions to the gradients. Works in its thread's scratch memory.
class Slopes {
 public:
  // Throws std::bad_alloc.
  explicit Slopes(const Backward& backward)
      : backward_(backward),
        problem_(backward.problem),
        width_(problem_.q.width),
        room_(thread_floats({kQueries * kKeys, kQueries * kKeys, kQueries * width_,
                             kQueries * width_, kKeys * width_, kKeys * width_, width_,
                             kKeys * width_, kKeys * width_})) {}

  void choose_queries(Span queries, int64_t head) {
    queries_ = queries;
    head_ = head;
    has_queries_ = false;
    for (int64_t i = 0; i < queries.count; ++i) {
      // A query with a logsumexp of -infinity sees no keys.
      const int64_t query = queries.first + i;
      windows_[i] = logsumexp_of(query) != kNothing ? problem_.windows[query] : Window{0, 0};
    }
  }
  void choose_keys(Span keys, int64_t kv_head) {
    keys_ = keys;
    kv_head_ = kv_head;
    has_keys_ = false;
  }
  // The keys that any of the queries sees.
  Span seen_keys() const { return attention::seen_by(windows_, {0, queries_.count}); }

  // Computes the block of the chosen queries and keys. Read the results only if some query sees a
  // key.
  void find() {
    block_ = attention::narrow(windows_, {0, queries_.count}, keys_);
    block_.queries.first += queries_.first;
    if (is_empty()) return;
    if (!has_queries_) read_queries();
    if (!has_keys_) read_keys();
    attention::multiply_heads(block_, from(q_, first_query()), from(k_, first_key()), width_,
                              problem_.scale, probabilities_);
    attention::multiply_heads(block_, from(dout_, first_query()), from(v_, first_key()), width_,
                              /*scale=*/1.0f, slopes_);
    for (int64_t i = 0; i < block_.queries.count; ++i) find_row(i);
  }
  bool is_empty() const { return block_.queries.count == 0; }

  // Adds to the sums of all chosen queries.
  void add_dq(float* dq) const {
    attention::add_weighted(block_, slopes_, from(k_, first_key()), Sums::kOfQueries, width_,
                            dq + first_query() * width_);
  }
  // Adds to the sums of all chosen keys.
  void add_dk_dv() const {
    const int64_t at = first_key() * width_;
    attention::add_weighted(block_, probabilities_, from(dout_, first_query()), Sums::kOfKeys,
                            width_, dv_ + at);
    attention::add_weighted(block_, slopes_, from(q_, first_query()), Sums::kOfKeys, width_,
                            dk_ + at);
  }
  void clear_dk_dv() const {
    std::fill_n(dk_, keys_.count * width_, 0.0f);
    std::fill_n(dv_, keys_.count * width_, 0.0f);
  }
  void store_dk_dv() const {
    for (int64_t i = 0; i < keys_.count; ++i) {
      backward_.of_keys(backward_.dk).store(keys_.first + i, kv_head_, dk_ + i * width_);
      backward_.of_keys(backward_.dv).store(keys_.first + i, kv_head_, dv_ + i * width_);
    }
  }

 private:
  float logsumexp_of(int64_t query) const {
    return backward_.logsumexp[head_ * problem_.tokens_q + query];
  }
  int64_t first_query() const { return block_.queries.first - queries_.first; }
  int64_t first_key() const { return block_.keys.first - keys_.first; }

  void read_queries() {
    const Heads out = backward_.of_queries(backward_.out);
    q_ = problem_.q.gathered(queries_, head_, room_[2]);
    dout_ = backward_.of_queries(backward_.dout).gathered(queries_, head_, room_[3]);
    for (int64_t i = 0; i < queries_.count; ++i) {
      const gemm::Matrix row = out.rows({queries_.first + i, 1}, head_, room_[6]);
      own_[i] = static_cast<float>(kernels::dot_f32(static_cast<const float*>(from(dout_, i).data),
                                                    static_cast<const float*>(row.data), width_));
    }
    has_queries_ = true;
  }
  void read_keys() {
    k_ = problem_.k.gathered(keys_, kv_head_, room_[4]);
    v_ = problem_.v.gathered(keys_, kv_head_, room_[5]);
    has_keys_ = true;
  }

  void find_row(int64_t i) {
    float* const probabilities = probabilities_ + block_.at(i);
    float* const slopes = slopes_ + block_.at(i);
    const Window seen = block_.visible(i);
    for (float* const row : {probabilities, slopes}) {
      std::fill(row, row + seen.first, 0.0f);
      std::fill(row + seen.last, row + block_.keys.count, 0.0f);
    }
    if (seen.first == seen.last) return;
    const int64_t count = seen.last - seen.first;
    if (problem_.mask.data != nullptr) {
      problem_.mask.add(block_.windows[i], head_, block_.keys.first + seen.first,
                        probabilities + seen.first, count);
    }
    kernels::scaled_softmax_f32(probabilities + seen.first,
                                {logsumexp_of(block_.queries.first + i)},
                                /*scale=*/1.0f, probabilities + seen.first, count);
    const float own = own_[first_query() + i];
    if (problem_.dropout.row == 0) {
      kernels::softmax_slope_f32(probabilities + seen.first, own, problem_.scale,
                                 slopes + seen.first, count);
    } else {
      const int64_t element =
          problem_.element(head_, block_.queries.first + i, block_.keys.first + seen.first);
      kernels::dropped_softmax_slope_f32(problem_.dropout.mask, element, probabilities + seen.first,
                                         own, problem_.scale, slopes + seen.first, count);
    }
  }

  const Backward& backward_;
  const Problem& problem_;
  const int64_t width_;
  const std::array<float*, 9> room_;
  float* const probabilities_ = room_[0];
  float* const slopes_ = room_[1];
  float* const dk_ = room_[7];
  float* const dv_ = room_[8];

  Span queries_ = {}, keys_ = {};
  int64_t head_ = 0, kv_head_ = 0;
  bool has_queries_ = false, has_keys_ = false;  // whether they have been read
  gemm::Matrix q_ = {}, dout_ = {}, k_ = {}, v_ = {};
  float own_[kQueries];       // dout . out
  Window windows_[kQueries];  // of the queries
  Block block_ = {};          // those that see each other
};

// Stores dq of a block of queries, whose sums are complete.
void store_dq(const Backward& backward, Span queries, int64_t head) {
  const Heads dq = backward.of_queries(backward.dq);
  for (int64_t query = queries.first; query < queries.end(); ++query) {
    dq.store(query, head, backward.dq_sums_of(query, head));
  }
}

void find_dq(const Backward& backward, Span queries, int64_t head) {
  const Problem& problem = backward.problem;
  float* const sums = backward.dq_sums_of(queries.first, head);
  std::fill_n(sums, queries.count * problem.q.width, 0.0f);
  Slopes slopes(backward);
  slopes.choose_queries(queries, head);
  const Span seen = slopes.seen_keys();
  for (int64_t key = seen.first / kKeys * kKeys; key < seen.end(); key += kKeys) {
    slopes.choose_keys({key, std::min(kKeys, problem.tokens_k - key)}, problem.kv_head(head));
    slopes.find();
    if (!slopes.is_empty()) slopes.add_dq(sums);
  }
  store_dq(backward, queries, head);
}

// Computes dk and dv of a block of keys and, if |with_dq|, adds the block's contribution to the
// sums of dq.
void find_dk_dv(Slopes& slopes, const Backward& backward, Span keys, int64_t kv_head,
                bool with_dq) {
  const Problem& problem = backward.problem;
  const int64_t group = problem.heads / problem.kv_heads;
  slopes.choose_keys(keys, kv_head);
  slopes.clear_dk_dv();
  for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    for (int64_t query = 0; query < problem.tokens_q; query += kQueries) {
      slopes.choose_queries({query, std::min(kQueries, problem.tokens_q - query)}, head);
      slopes.find();
      if (slopes.is_empty()) continue;
      slopes.add_dk_dv();
      if (with_dq) slopes.add_dq(backward.dq_sums_of(query, head));
    }
  }
  slopes.store_dk_dv();
}

// Computes all gradients of the query heads that share one head of keys and values.
void find_all(const Backward& backward, int64_t kv_head) {
  const Problem& problem = backward.problem;
  const int64_t group = problem.heads / problem.kv_heads;
  std::fill_n(backward.dq_sums_of(0, kv_head * group), group * problem.tokens_q * problem.q.width,
              0.0f);
  Slopes slopes(backward);
  for (int64_t key = 0; key < problem.tokens_k; key += kKeys) {
    const Span keys = {key, std::min(kKeys, problem.tokens_k - key)};
    find_dk_dv(slopes, backward, keys, kv_head, /*with_dq=*/true);
  }
  for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    store_dq(backward, {0, problem.tokens_q}, head);
  }
}

// Whether one head per core finishes earlier than blocks, which take seven products instead of
// five.
bool is_done_by_heads(int64_t heads, int64_t cores) {
  const int64_t rounds = (heads + cores - 1) / cores;
  return rounds * cores * 5 <= heads * 7;
}

keel_status run_backward(ThreadPool& pool, const Backward& backward) {
  const Problem& problem = backward.problem;
  problem.find_windows();
  if (is_done_by_heads(problem.kv_heads, pool.cores())) {
    return pool.try_for(problem.kv_heads, /*grain=*/1, [&](int64_t head, int64_t end) {
      for (; head < end; ++head) find_all(backward, head);
      return keel_status{KEEL_OK};
    });
  }
  // Calls |find(span, head)| for all spans of |step| tokens of |tokens|.
  const auto for_each = [&](int64_t tokens, int64_t step, int64_t heads, const auto& find) {
    const int64_t blocks = (tokens + step - 1) / step;
    return pool.try_for(blocks * heads, /*grain=*/1, [&](int64_t unit, int64_t end) {
      for (; unit < end; ++unit) {
        const int64_t first = unit / heads * step;
        find(Span{first, std::min(step, tokens - first)}, unit % heads);
      }
      return keel_status{KEEL_OK};
    });
  };
  const keel_status status =
      for_each(problem.tokens_q, kQueries, problem.heads,
               [&](Span queries, int64_t head) { return find_dq(backward, queries, head); });
  if (status != KEEL_OK) return status;
  return for_each(problem.tokens_k, kKeys, problem.kv_heads, [&](Span keys, int64_t kv_head) {
    Slopes slopes(backward);
    find_dk_dv(slopes, backward, keys, kv_head, /*with_dq=*/false);
  });
}

// Offset of the sums of dq in the workspace, behind the windows.
uint64_t dq_sums_offset(const keel_op_call& call) {
  constexpr uint64_t kLine = Scratch::kAlignment;
  return (Problem::workspace_bytes(call) + kLine - 1) / kLine * kLine;
}

OpSupport attention_backward_query(const keel_op_call& call) {
  const keel_dtype dtype = call.inputs[0]->dtype;
  const auto is_dense = [dtype](const keel_tensor* tensor) {
    return tensor->dtype == dtype && kit::is_contiguous(*tensor);
  };
  const keel_tensor& logsumexp = *call.inputs[5];
  const bool runs = Problem::supports(call, /*cu_seqlens=*/6) &&
                    std::all_of(call.inputs + 3, call.inputs + 5, is_dense) &&
                    std::all_of(call.outputs, call.outputs + call.output_count, is_dense) &&
                    logsumexp.dtype == KEEL_FLOAT32 && kit::is_contiguous(logsumexp);
  if (!runs) return {};
  const auto elements = static_cast<uint64_t>(kit::element_count(*call.inputs[0]));
  return {"attention_backward", KEEL_OP_NATIVE, dq_sums_offset(call) + elements * sizeof(float)};
}

void attention_backward_run(Stream& stream, const keel_op_call& call, void* workspace) {
  const Backward backward = {
      Problem::of(stream, call, /*cu_seqlens=*/6, workspace),
      address<char>(stream, *call.inputs[3]),
      address<char>(stream, *call.inputs[4]),
      address<char>(stream, *call.outputs[0]),
      address<char>(stream, *call.outputs[1]),
      address<char>(stream, *call.outputs[2]),
      address<const float>(stream, *call.inputs[5]),
      reinterpret_cast<float*>(static_cast<char*>(workspace) + dq_sums_offset(call))};
  stream.enqueue([backward](ThreadPool& pool) { return run_backward(pool, backward); });
}

}  // namespace

const Operator kAttentionBackwardOperator = {attention_backward_query, attention_backward_run};

}  // namespace keel::cpu
