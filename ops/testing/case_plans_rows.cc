// SPDX-License-Identifier: Apache-2.0
// Plans of the operators of rows: sums, losses, normalisations, softmax, attention.
#include "ops/testing/case_builder.h"
#include "ops/testing/case_plans.h"

namespace keel::ops {
namespace {

using D = Distribution;

CaseTensor tensor(Extents shape, D distribution = D::kNormal, int64_t bound = 0) {
  return dense(KEEL_FLOAT32, std::move(shape), distribution, bound);
}

CaseTensor result(Extents shape) {
  return tensor(std::move(shape), D::kNaN);
}

PlannedTensors sum_tensors(const PlannedCall& call) {
  const Extents& e = call.extents;
  const double axis = attribute(KEEL_OP_SUM, "axis", call);
  const Extents of_y = axis == 0 ? Extents{e[1]} : axis == 1 ? Extents{e[0]} : Extents{};
  return {{tensor(e)}, {result(of_y)}};
}

PlannedTensors layer_norm_tensors(const PlannedCall& call) {
  const Extents& e = call.extents;
  return {{tensor(e), tensor({e[1]}), tensor({e[1]})}, {result(e), result({e[0]}), result({e[0]})}};
}

PlannedTensors rms_norm_tensors(const PlannedCall& call) {
  const Extents& e = call.extents;
  return {{tensor(e), tensor({e[1]})}, {result(e), result({e[0]})}};
}

PlannedTensors layer_norm_backward_tensors(const PlannedCall& call) {
  const Extents& e = call.extents;
  return {{tensor(e), tensor(e), tensor({e[1]}), tensor({e[0]}, D::kUniform),
           tensor({e[0]}, D::kPositive)},
          {result(e), result({e[1]}), result({e[1]})}};
}

PlannedTensors rms_norm_backward_tensors(const PlannedCall& call) {
  const Extents& e = call.extents;
  return {{tensor(e), tensor(e), tensor({e[1]}), tensor({e[0]}, D::kPositive)},
          {result(e), result({e[1]})}};
}

// The mask is shared by all matrices.
PlannedTensors softmax_tensors(const PlannedCall& call) {
  const Extents& e = call.extents;
  return {{tensor(e, D::kLogits), tensor({e[1], e[2]}, D::kMask)}, {result(e)}};
}

PlannedTensors softmax_backward_tensors(const PlannedCall& call) {
  return {{tensor(call.extents, D::kPositive), tensor(call.extents)}, {result(call.extents)}};
}

PlannedTensors cross_entropy_tensors(const PlannedCall& call) {
  const Extents& e = call.extents;
  return {{tensor(e, D::kLogits), tensor({e[0]}, D::kIndicesSomeOutside, e[1])},
          {result({e[0]}), result({e[0]})}};
}

PlannedTensors cross_entropy_backward_tensors(const PlannedCall& call) {
  const Extents& e = call.extents;
  return {{tensor(e, D::kLogits), tensor({e[0]}, D::kIndicesSomeOutside, e[1]),
           tensor({e[0]}, D::kLogSumExp)},
          {result(e)}};
}

// Labels of the shard, the previous shard and the next one; labels before the first shard are
// negative.
CaseTensor shard_labels(const Extents& e, double first) {
  CaseTensor labels = tensor({e[0]}, D::kIndices, 3 * e[1]);
  labels.base = static_cast<int64_t>(first) - e[1];
  return labels;
}

PlannedTensors shard_tensors(const PlannedCall& call) {
  const Extents& e = call.extents;
  const double first = attribute(KEEL_OP_CROSS_ENTROPY_SHARD, "first", call);
  return {{tensor(e, D::kLogits), shard_labels(e, first)},
          {result({e[0]}), result({e[0]}), result({e[0]})}};
}

PlannedTensors shard_backward_tensors(const PlannedCall& call) {
  const Extents& e = call.extents;
  const double first = attribute(KEEL_OP_CROSS_ENTROPY_SHARD_BACKWARD, "first", call);
  return {{tensor(e, D::kLogits), shard_labels(e, first), tensor({e[0]}, D::kLogSumExp)},
          {result(e)}};
}

// Extents of both directions: tokens_q, tokens_k, heads, kv_heads, width, sequences.
const std::vector<Extents> kHeads = {{31, 17, 2, 1, 13, 3}, {1, 70, 2, 1, 16, 1},
                                     {67, 1, 2, 2, 8, 2},   {65, 65, 1, 1, 17, 1},
                                     {64, 64, 2, 1, 16, 2}, {0, 5, 1, 1, 4, 1}};

struct Heads {
  explicit Heads(const Extents& e)
      : q({e[0], e[2], e[4]}),
        k({e[1], e[3], e[4]}),
        rows({e[2], e[0]}),
        mask({1, e[2], e[0], e[1]}),
        e_(e) {}
  CaseTensor boundaries(int64_t tokens) const {
    return tensor({e_[5] + 1}, D::kBoundaries, tokens);
  }
  const Extents q, k, rows, mask;

 private:
  const Extents& e_;
};

PlannedTensors attention_tensors(const PlannedCall& call) {
  const Extents& e = call.extents;
  const Heads heads(e);
  return {{tensor(heads.q), tensor(heads.k), tensor(heads.k), heads.boundaries(e[0]),
           heads.boundaries(e[1]), tensor(heads.mask)},
          {result(heads.q), result(heads.rows)}};
}

PlannedTensors attention_backward_tensors(const PlannedCall& call) {
  const Extents& e = call.extents;
  const Heads heads(e);
  return {{tensor(heads.q), tensor(heads.k), tensor(heads.k), tensor(heads.q), tensor(heads.q),
           tensor(heads.rows, D::kUniform), heads.boundaries(e[0]), heads.boundaries(e[1]),
           tensor(heads.mask)},
          {result(heads.q), result(heads.k), result(heads.k)}};
}

PlannedTensors attention_merge_tensors(const PlannedCall& call) {
  const Extents& e = call.extents;
  const Extents rows = {e[1], e[0]};
  return {{tensor(e), tensor(rows, D::kLogits), tensor(e), tensor(rows, D::kLogits)},
          {result(e), result(rows)}};
}

constexpr int64_t kRows = 14;  // rows of cases with one special element per row

Extents some_rows(int64_t columns) {
  return {kRows, columns};
}

Extents one_matrix(int64_t columns) {
  return {1, kRows, columns};
}

}  // namespace

std::vector<CasePlan> row_plans() {
  const std::vector<Extents> in_planes = {{2, 31, 17}, {1, 1, 1027}, {3, 67, 1},
                                          {1, 3, 257}, {2, 4, 256},  {2, 0, 5}};
  const std::vector<double> epsilons = {1e-5, 0, 3};
  const std::vector<double> firsts = {0, 17, 70000, 2147480000};
  constexpr double kSeed = 1234567890123;   // more than 32 bits
  constexpr double kOffset = 0x3p32 - 300;  // counters carry into their upper word
  return {
      {KEEL_OP_SUM, {matrices()}, {{1, 0, -1}}, sum_tensors, {}, false, some_rows},
      {KEEL_OP_LAYER_NORM, {matrices()}, {epsilons}, layer_norm_tensors, {}, false, some_rows},
      {KEEL_OP_RMS_NORM, {matrices()}, {epsilons}, rms_norm_tensors, {}, false, some_rows},
      {KEEL_OP_LAYER_NORM_BACKWARD,
       {matrices()},
       {},
       layer_norm_backward_tensors,
       {},
       false,
       some_rows},
      {KEEL_OP_RMS_NORM_BACKWARD,
       {matrices()},
       {},
       rms_norm_backward_tensors,
       {},
       false,
       some_rows},
      // scale, causal
      {KEEL_OP_SOFTMAX,
       {in_planes},
       {{1, 0.125, -1.5}, {0, 1}},
       softmax_tensors,
       {},
       false,
       one_matrix},
      {KEEL_OP_SOFTMAX_BACKWARD,
       {matrices()},
       {{1, -0.125, 3}},
       softmax_backward_tensors,
       {},
       false,
       some_rows},
      {KEEL_OP_CROSS_ENTROPY, {matrices()}, {}, cross_entropy_tensors, {}, false, some_rows},
      {KEEL_OP_CROSS_ENTROPY_BACKWARD,
       {matrices()},
       {{1, 0.25, -3}},
       cross_entropy_backward_tensors,
       {},
       false,
       some_rows},
      {KEEL_OP_CROSS_ENTROPY_SHARD, {matrices()}, {firsts}, shard_tensors, {}, false, some_rows},
      {KEEL_OP_CROSS_ENTROPY_SHARD_BACKWARD,
       {matrices()},
       {{1, 0.25, -3}, firsts},
       shard_backward_tensors,
       {},
       false,
       some_rows},
      // scale, causal, p, seed, offset
      {KEEL_OP_ATTENTION,
       {kHeads},
       {{0.25, 1, -0.5}, {0, 1}, {0, 0.25}, {0, kSeed}, {0, kOffset}},
       attention_tensors,
       {3, 4},
       true},
      {KEEL_OP_ATTENTION_BACKWARD,
       {kHeads},
       {{0.25, 0.5, -0.25}, {0, 1}, {0, 0.25}, {0, kSeed}, {0, kOffset}},
       attention_backward_tensors,
       {6, 7},
       true},
      {KEEL_OP_ATTENTION_MERGE,
       {{{31, 2, 17}, {1, 1, 1027}, {67, 3, 1}, {3, 2, 257}, {4, 2, 256}, {0, 2, 5}}},
       {},
       attention_merge_tensors},
  };
}

}  // namespace keel::ops
