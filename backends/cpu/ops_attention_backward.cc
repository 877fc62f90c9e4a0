// attention_backward: a pass over the queries makes dq, one over the keys dk and dv. Both compute
// the probabilities again from logsumexp. Seven products where one pass would do with five, but
// each sum has one owner, and its order does not depend on who comes first.
#include <algorithm>
#include <atomic>
#include <keel/plugin_kit.hpp>
#include <limits>

#include "backends/cpu/attention.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/ops.h"

namespace keel::cpu {
namespace {

using attention::Block;
using attention::Heads;
using attention::kKeys;
using attention::kMaxWidth;
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

  Heads of_queries(char* data) const { return dense(data, problem.heads); }
  Heads of_keys(char* data) const { return dense(data, problem.kv_heads); }

 private:
  Heads dense(char* data, int64_t heads) const {
    const int64_t width = problem.q.width;
    return {data, problem.q.dtype, heads * width, width, width};
  }
};

// The probabilities of a block, and the slopes of its scores. On the stack of its thread, as are
// the sums of both passes: some 1 MiB.
class Slopes {
 public:
  Slopes(const Backward& backward, int64_t head) : backward_(backward), head_(head) {}

  // Both are multiplied with in turn: |heads| is the rows of queries or keys at the time.
  keel_status find(const Block& block) {
    const Problem& problem = backward_.problem;
    const int64_t width = problem.q.width;
    const int64_t kv_head = problem.kv_head(head_);
    keel_status status = attention::multiply_heads(block, problem.q.rows(block.queries, head_, a_),
                                                   problem.k.rows(block.keys, kv_head, b_), width,
                                                   problem.scale, probabilities_);
    if (status != KEEL_OK) return status;
    const gemm::Matrix dout = backward_.of_queries(backward_.dout).rows(block.queries, head_, a_);
    status = attention::multiply_heads(block, dout, problem.v.rows(block.keys, kv_head, b_), width,
                                       /*scale=*/1.0f, slopes_);
    if (status != KEEL_OK) return status;
    for (int64_t i = 0; i < block.queries.count; ++i) {
      find_row(block, i, static_cast<const float*>(dout.data) + i * dout.stride);
    }
    return KEEL_OK;
  }

  const float* probabilities() const { return probabilities_; }
  const float* slopes() const { return slopes_; }
  // Room for the rows of a block's queries or keys.
  float* scratch() { return a_; }

 private:
  void find_row(const Block& block, int64_t i, const float* dout) {
    const Problem& problem = backward_.problem;
    const int64_t query = block.queries.first + i;
    float* const probabilities = probabilities_ + i * kKeys;
    float* const slopes = slopes_ + i * kKeys;
    const Window seen = block.visible(i);
    for (float* const row : {probabilities, slopes}) {
      std::fill(row, row + seen.first, 0.0f);
      std::fill(row + seen.last, row + block.keys.count, 0.0f);
    }
    if (seen.first == seen.last) return;
    const int64_t count = seen.last - seen.first;
    const gemm::Matrix out = backward_.of_queries(backward_.out).rows({query, 1}, head_, row_);
    const auto own = static_cast<float>(
        kernels::dot_f32(dout, static_cast<const float*>(out.data), problem.q.width));
    kernels::scaled_softmax_f32(probabilities + seen.first,
                                backward_.logsumexp[head_ * problem.tokens_q + query],
                                /*scale=*/1.0f, probabilities + seen.first, count);
    kernels::softmax_slope_f32(probabilities + seen.first, own, problem.scale, slopes + seen.first,
                               count);
  }

  const Backward& backward_;
  const int64_t head_;
  alignas(64) float probabilities_[kQueries * kKeys];
  alignas(64) float slopes_[kQueries * kKeys];
  // Of 16-bit tensors.
  alignas(64) float a_[std::max(kQueries, kKeys) * kMaxWidth];
  alignas(64) float b_[kKeys * kMaxWidth];
  float row_[kMaxWidth];
};

// A head's queries with a logsumexp of -infinity see nothing.
struct HeadWindows {
  HeadWindows(const Backward& backward, Span queries, int64_t head) {
    const Problem& problem = backward.problem;
    for (int64_t i = 0; i < queries.count; ++i) {
      const int64_t query = queries.first + i;
      const bool sees = backward.logsumexp[head * problem.tokens_q + query] != kNothing;
      of[i] = sees ? problem.windows[query] : Window{0, 0};
    }
  }
  Window of[kQueries];
};

// The part of |queries| and |keys| that see each other.
Block find_block(const HeadWindows& windows, Span queries, Span keys) {
  Block block = attention::narrow(windows.of, {0, queries.count}, keys);
  block.queries.first += queries.first;
  return block;
}

keel_status find_dq(const Backward& backward, Span queries, int64_t head) {
  const Problem& problem = backward.problem;
  const int64_t width = problem.q.width;
  alignas(64) float sums[kQueries * kMaxWidth];
  std::fill_n(sums, queries.count * width, 0.0f);
  Slopes slopes(backward, head);
  const HeadWindows windows(backward, queries, head);
  const Span keys = attention::seen_by(windows.of, {0, queries.count});
  for (int64_t key = keys.first; key < keys.end(); key += kKeys) {
    const Block block = find_block(windows, queries, {key, std::min(kKeys, keys.end() - key)});
    if (block.queries.count == 0) continue;
    keel_status status = slopes.find(block);
    if (status != KEEL_OK) return status;
    status = attention::add_weighted(
        block, slopes.slopes(), problem.k.rows(block.keys, problem.kv_head(head), slopes.scratch()),
        Sums::kOfQueries, width, sums + (block.queries.first - queries.first) * width);
    if (status != KEEL_OK) return status;
  }
  const Heads dq = backward.of_queries(backward.dq);
  for (int64_t i = 0; i < queries.count; ++i) dq.store(queries.first + i, head, sums + i * width);
  return KEEL_OK;
}

keel_status find_dk_dv(const Backward& backward, Span keys, int64_t kv_head) {
  const Problem& problem = backward.problem;
  const int64_t width = problem.q.width;
  alignas(64) float dk[kKeys * kMaxWidth];
  alignas(64) float dv[kKeys * kMaxWidth];
  std::fill_n(dk, keys.count * width, 0.0f);
  std::fill_n(dv, keys.count * width, 0.0f);
  const int64_t group = problem.heads / problem.kv_heads;
  for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    Slopes slopes(backward, head);
    for (int64_t query = 0; query < problem.tokens_q; query += kQueries) {
      const Span queries = {query, std::min(kQueries, problem.tokens_q - query)};
      const HeadWindows windows(backward, queries, head);
      const Block block = find_block(windows, queries, keys);
      if (block.queries.count == 0) continue;
      keel_status status = slopes.find(block);
      if (status != KEEL_OK) return status;
      const int64_t at = (block.keys.first - keys.first) * width;
      status = attention::add_weighted(
          block, slopes.probabilities(),
          backward.of_queries(backward.dout).rows(block.queries, head, slopes.scratch()),
          Sums::kOfKeys, width, dv + at);
      if (status != KEEL_OK) return status;
      status = attention::add_weighted(block, slopes.slopes(),
                                       problem.q.rows(block.queries, head, slopes.scratch()),
                                       Sums::kOfKeys, width, dk + at);
      if (status != KEEL_OK) return status;
    }
  }
  for (int64_t i = 0; i < keys.count; ++i) {
    backward.of_keys(backward.dk).store(keys.first + i, kv_head, dk + i * width);
    backward.of_keys(backward.dv).store(keys.first + i, kv_head, dv + i * width);
  }
  return KEEL_OK;
}

keel_status run_backward(ThreadPool& pool, const Backward& backward) {
  const Problem& problem = backward.problem;
  problem.find_windows();
  std::atomic<keel_status> failure{KEEL_OK};
  // |find(span, head)| for all spans of |step| of |tokens|.
  const auto for_each = [&](int64_t tokens, int64_t step, int64_t heads, const auto& find) {
    const int64_t blocks = (tokens + step - 1) / step;
    pool.parallel_for(blocks * heads, /*grain=*/1, [&](int64_t begin, int64_t end) {
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t first = unit / heads * step;
        const keel_status status =
            find(backward, Span{first, std::min(step, tokens - first)}, unit % heads);
        if (status != KEEL_OK) failure.store(status, std::memory_order_relaxed);
      }
    });
  };
  for_each(problem.tokens_q, kQueries, problem.heads, find_dq);
  for_each(problem.tokens_k, kKeys, problem.kv_heads, find_dk_dv);
  return failure.load(std::memory_order_relaxed);
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
  return {"attention_backward", KEEL_OP_NATIVE, Problem::workspace_bytes(call)};
}

void attention_backward_run(Stream& stream, const keel_op_call& call, void* workspace) {
  const Backward backward = {Problem::of(stream, call, /*cu_seqlens=*/6, workspace),
                             address<char>(stream, *call.inputs[3]),
                             address<char>(stream, *call.inputs[4]),
                             address<char>(stream, *call.outputs[0]),
                             address<char>(stream, *call.outputs[1]),
                             address<char>(stream, *call.outputs[2]),
                             address<const float>(stream, *call.inputs[5])};
  stream.enqueue([backward](ThreadPool& pool) { return run_backward(pool, backward); });
}

}  // namespace

const Operator kAttentionBackwardOperator = {attention_backward_query, attention_backward_run};

}  // namespace keel::cpu
