// SPDX-License-Identifier: Apache-2.0
// attention and the merge of partial results.
#include <algorithm>
#include <array>
#include <cmath>
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
using attention::Window;

constexpr float kNothing = -std::numeric_limits<float>::infinity();

// ---- attention -----------------------------------------------------------------

struct Forward {
  Problem problem;
  Heads out;
  float* logsumexp;
};

// One block of queries while the keys pass by: FlashAttention's online softmax (Dao, Fu, Ermon,
// Rudra, Re 2022, arXiv:2205.14135; the order of the loops is FlashAttention-2's, Dao 2023,
// arXiv:2307.08691). Each row keeps the largest score so far, the sum of exp(score - largest) and
// the values weighted by the same exponentials; a larger score scales both down. Works in its
// thread's scratch memory.
class QueryBlock {
 public:
  // Throws std::bad_alloc.
  QueryBlock(const Forward& forward, Span queries, int64_t head)
      : forward_(forward),
        problem_(forward.problem),
        queries_(queries),
        head_(head),
        room_(thread_floats({kQueries * kKeys, kQueries * problem_.q.width,
                             kQueries * problem_.q.width, kKeys * problem_.q.width})),
        q_(problem_.q.gathered(queries, head, room_[2])) {
    std::fill_n(sums_, queries.count * problem_.q.width, 0.0f);
    std::fill_n(largest_, queries.count, kNothing);
    std::fill_n(total_, queries.count, 0.0);
  }

  void run() {
    const Span keys = attention::seen_by(problem_.windows, queries_);
    for (int64_t key = keys.first; key < keys.end(); key += kKeys) {
      add({key, std::min(kKeys, keys.end() - key)});
    }
    for (int64_t row = 0; row < queries_.count; ++row) finish(row);
  }

 private:
  void add(Span keys) {
    const Block block = attention::narrow(problem_.windows, queries_, keys);
    if (block.queries.count == 0) return;
    const int64_t width = problem_.q.width;
    const int64_t kv_head = problem_.kv_head(head_);
    const int64_t first = block.queries.first - queries_.first;
    gemm::Matrix q = q_;
    q.data = static_cast<float*>(q_.data) + first * q_.stride;
    attention::multiply_heads(block, q, problem_.k.rows(block.keys, kv_head, key_scratch_), width,
                              problem_.scale, scores_);
    for (int64_t i = 0; i < block.queries.count; ++i) weigh(block, i, first + i);
    attention::add_weighted(block, scores_, problem_.v.gathered(block.keys, kv_head, key_scratch_),
                            attention::Sums::kOfQueries, width, sums_ + first * width);
  }

  // Replaces the scores of query |i| of |block|, which is row |row|, by weights.
  void weigh(const Block& block, int64_t i, int64_t row) {
    float* const scores = scores_ + block.at(i);
    const Window seen = block.visible(i);
    std::fill(scores, scores + seen.first, 0.0f);
    std::fill(scores + seen.last, scores + block.keys.count, 0.0f);
    if (seen.first == seen.last) return;
    const int64_t count = seen.last - seen.first;
    if (problem_.mask.data != nullptr) {
      problem_.mask.add(block.windows[i], head_, block.keys.first + seen.first, scores + seen.first,
                        count);
    }
    const float top = std::max(largest_[row], kernels::largest_f32(scores + seen.first, count));
    // If all scores are -infinity the weights are 0.
    const float shift = top == kNothing ? 0.0f : top;
    const float sum = kernels::exp_and_sum_f32(scores + seen.first, shift, count);
    if (top != largest_[row]) {
      const float fading = std::exp(largest_[row] - shift);
      float* const own = sums_ + row * problem_.q.width;
      kernels::scale_f32(own, fading, own, problem_.q.width);
      total_[row] *= static_cast<double>(fading);
      largest_[row] = top;
    }
    total_[row] += static_cast<double>(sum);
    if (problem_.dropout.row != 0) {
      // After the sum: the divisor is that of all weights.
      kernels::drop_f32(
          problem_.dropout.mask,
          problem_.element(head_, block.queries.first + i, block.keys.first + seen.first),
          scores + seen.first, count);
    }
  }

  void finish(int64_t row) {
    const int64_t query = queries_.first + row;
    const int64_t width = problem_.q.width;
    float* const own = sums_ + row * width;
    float& logsumexp = forward_.logsumexp[head_ * problem_.tokens_q + query];
    if (total_[row] == 0.0) {
      std::fill_n(own, width, 0.0f);
      logsumexp = kNothing;
    } else {
      kernels::scale_f32(own, static_cast<float>(1.0 / total_[row]), own, width);
      logsumexp = static_cast<float>(static_cast<double>(largest_[row]) + std::log(total_[row]));
    }
    forward_.out.store(query, head_, own);
  }

  const Forward& forward_;
  const Problem& problem_;
  const Span queries_;
  const int64_t head_;
  const std::array<float*, 4> room_;
  float* const scores_ = room_[0];  // of a block
  float* const sums_ = room_[1];
  const gemm::Matrix q_;
  float* const key_scratch_ = room_[3];
  float largest_[kQueries];
  double total_[kQueries];
};

keel_status run_forward(ThreadPool& pool, const Forward& forward) {
  const Problem& problem = forward.problem;
  problem.find_windows();
  const int64_t blocks = (problem.tokens_q + kQueries - 1) / kQueries;
  const auto run = [&](int64_t begin, int64_t end) -> keel_status {
    for (int64_t unit = begin; unit < end; ++unit) {
      // Starts with the last blocks: with causal attention they see the most keys.
      const int64_t first = (blocks - 1 - unit / problem.heads) * kQueries;
      const Span queries = {first, std::min(kQueries, problem.tokens_q - first)};
      QueryBlock(forward, queries, unit % problem.heads).run();
    }
    return KEEL_OK;
  };
  return pool.try_for(blocks * problem.heads, /*grain=*/1, run);
}

OpSupport attention_query(const keel_op_call& call) {
  Heads out;
  const keel_tensor& logsumexp = *call.outputs[1];
  const bool runs = Problem::supports(call, /*cu_seqlens=*/3) &&
                    Heads::describe(*call.outputs[0], &out) && logsumexp.dtype == KEEL_FLOAT32 &&
                    kit::is_contiguous(logsumexp);
  if (!runs) return {};
  return {"attention", KEEL_OP_NATIVE, Problem::workspace_bytes(call)};
}

void attention_run(Stream& stream, const keel_op_call& call, void* workspace) {
  if (call.inputs[0]->shape[0] == 0) return;
  const Forward forward = {Problem::of(stream, call, /*cu_seqlens=*/3, workspace),
                           Heads::of(stream, *call.outputs[0]),
                           address<float>(stream, *call.outputs[1])};
  stream.enqueue([forward](ThreadPool& pool) { return run_forward(pool, forward); });
}

// ---- merge ---------------------------------------------------------------------

OpSupport attention_merge_query(const keel_op_call& call) {
  const auto fits = [](const keel_tensor* tensor) {
    return tensor->dtype == KEEL_FLOAT32 && kit::is_contiguous(*tensor);
  };
  const bool runs = std::all_of(call.inputs, call.inputs + call.input_count, fits) &&
                    std::all_of(call.outputs, call.outputs + call.output_count, fits);
  return {runs ? "attention_merge" : nullptr};
}

struct Merge {
  const float *a, *lse_a, *b, *lse_b;
  float *out, *logsumexp;
  int64_t tokens, heads, width;

  void row(int64_t token, int64_t head) const {
    const int64_t of_lse = head * tokens + token;
    const int64_t at = (token * heads + head) * width;
    const auto left = static_cast<double>(lse_a[of_lse]);
    const auto right = static_cast<double>(lse_b[of_lse]);
    const bool has_left = lse_a[of_lse] != kNothing;
    const bool has_right = lse_b[of_lse] != kNothing;
    if (!has_left && !has_right) {
      std::fill_n(out + at, width, 0.0f);
      logsumexp[of_lse] = kNothing;
    } else if (has_left && has_right) {
      const double top = std::max(left, right);
      const double of_left = std::exp(left - top);
      const double of_right = std::exp(right - top);
      const double total = of_left + of_right;
      kernels::blend_f32(a + at, static_cast<float>(of_left / total), b + at,
                         static_cast<float>(of_right / total), out + at, width);
      logsumexp[of_lse] = static_cast<float>(top + std::log(total));
    } else {
      // If |out| is the input, the copy is onto itself. The weight is 1, or NaN if the logsumexp is
      // NaN or infinite, as with two sides.
      const float only = has_left ? lse_a[of_lse] : lse_b[of_lse];
      kernels::scale_f32((has_left ? a : b) + at, std::exp(only - only), out + at, width);
      logsumexp[of_lse] = (only - only) + only;
    }
  }
};

void attention_merge_run(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& a = *call.inputs[0];
  const Merge merge = {address<const float>(stream, a),
                       address<const float>(stream, *call.inputs[1]),
                       address<const float>(stream, *call.inputs[2]),
                       address<const float>(stream, *call.inputs[3]),
                       address<float>(stream, *call.outputs[0]),
                       address<float>(stream, *call.outputs[1]),
                       a.shape[0],
                       a.shape[1],
                       a.shape[2]};
  // About 50 us of memory traffic.
  const int64_t piece = std::max<int64_t>(1, (int64_t{1} << 15) / std::max<int64_t>(1, a.shape[2]));
  stream.enqueue([=](ThreadPool& pool) -> keel_status {
    pool.parallel_for(merge.tokens * merge.heads, piece, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) merge.row(i / merge.heads, i % merge.heads);
    });
    return KEEL_OK;
  });
}

}  // namespace

const Operator kAttentionOperator = {attention_query, attention_run};
const Operator kAttentionMergeOperator = {attention_merge_query, attention_merge_run};

}  // namespace keel::cpu
