// SPDX-License-Identifier: Apache-2.0
// Plans of products and of tables.
#include "ops/testing/case_builder.h"
#include "ops/testing/case_plans.h"

namespace keel::ops {
namespace {

using D = Distribution;

CaseTensor tensor(Extents shape, D distribution = D::kNormal, int64_t bound = 0) {
  return dense(KEEL_FLOAT32, std::move(shape), distribution, bound);
}

// ---- tables: rows of the table, columns, indices

// Includes one index before the range and one after it.
CaseTensor indices(const Extents& e, double first) {
  CaseTensor tensor = dense(KEEL_INT32, {e[2]}, D::kIndices, e[0] + 2);
  tensor.base = static_cast<int64_t>(first) - 1;
  return tensor;
}

PlannedTensors embedding_tensors(const PlannedCall& call) {
  const Extents& e = call.extents;
  const double first = attribute(KEEL_OP_EMBEDDING, "first", call);
  return {{tensor({e[0], e[1]}), indices(e, first)}, {tensor({e[2], e[1]}, D::kNaN)}};
}

PlannedTensors embedding_backward_tensors(const PlannedCall& call) {
  const Extents& e = call.extents;
  const double first = attribute(KEEL_OP_EMBEDDING_BACKWARD, "first", call);
  return {{tensor({e[2], e[1]}), indices(e, first)}, {tensor({e[0], e[1]}, D::kNaN)}};
}

// ---- products

Extents turned(bool is_turned, int64_t rows, int64_t columns) {
  return is_turned ? Extents{columns, rows} : Extents{rows, columns};
}

Extents packed(int64_t k, int64_t n) {
  return {KEEL_PACKED_EXTENT(k), KEEL_PACKED_EXTENT(n)};
}

// c is read if beta is not 0.
CaseTensor product(Extents shape, double beta) {
  return tensor(std::move(shape), beta == 0 ? D::kNaN : D::kNormal);
}

// Extents: m, n, k.
PlannedTensors matmul_tensors(const PlannedCall& call) {
  const Extents& e = call.extents;
  const auto value = [&](const char* name) { return attribute(KEEL_OP_MATMUL, name, call); };
  return {{tensor(turned(value("trans_a") != 0, e[0], e[2])),
           tensor(turned(value("trans_b") != 0, e[2], e[1])), tensor({e[1]})},
          {product({e[0], e[1]}, value("beta"))}};
}

PlannedTensors packed_matmul_tensors(const PlannedCall& call) {
  const Extents& e = call.extents;
  const auto value = [&](const char* name) { return attribute(KEEL_OP_PACKED_MATMUL, name, call); };
  return {{tensor(turned(value("trans_a") != 0, e[0], e[2])), tensor(packed(e[2], e[1])),
           tensor({e[1]})},
          {product({e[0], e[1]}, value("beta"))}};
}

// Extents: batch, m, n, k.
PlannedTensors batched_matmul_tensors(const PlannedCall& call) {
  const Extents& e = call.extents;
  const auto value = [&](const char* name) {
    return attribute(KEEL_OP_BATCHED_MATMUL, name, call);
  };
  const auto each = [&](Extents matrix) {
    matrix.insert(matrix.begin(), e[0]);
    return matrix;
  };
  return {{tensor(each(turned(value("trans_a") != 0, e[1], e[3]))),
           tensor(each(turned(value("trans_b") != 0, e[3], e[2])))},
          {product(each({e[1], e[2]}), value("beta"))}};
}

// Extents: k, n.
PlannedTensors pack_tensors(const PlannedCall& call) {
  const Extents& e = call.extents;
  const bool is_turned = attribute(KEEL_OP_PACK_WEIGHTS, "trans_b", call) != 0;
  return {{tensor(turned(is_turned, e[0], e[1]))}, {tensor(packed(e[0], e[1]), D::kNaN)}};
}

// An odd extent, one, one more than most kernels' tiles, the tile size, and zero.
const std::vector<Extents> kSides = {{17}, {1}, {65}, {64}, {0}};
const std::vector<double> kAlphas = {1, -0.7, 0};
const std::vector<double> kBetas = {0, 0.3, 1};
const std::vector<double> kEither = {0, 1};
const std::vector<double> kActivations = {0, 1, 2, 3};

}  // namespace

std::vector<CasePlan> table_plans() {
  const std::vector<Extents> tables = {{17, 5, 33}, {1, 1027, 3}, {67, 1, 129},
                                       {3, 257, 9}, {5, 256, 4},  {5, 3, 0}};
  const std::vector<double> firsts = {0, 17, 70000, 2147480000};
  return {{KEEL_OP_EMBEDDING, {tables}, {firsts}, embedding_tensors},
          {KEEL_OP_EMBEDDING_BACKWARD, {tables}, {firsts}, embedding_backward_tensors}};
}

std::vector<CasePlan> product_plans() {
  return {
      // trans_a, trans_b, alpha, beta, activation
      {KEEL_OP_MATMUL,
       {kSides, kSides, kSides},
       {kEither, kEither, kAlphas, kBetas, kActivations},
       matmul_tensors,
       {},
       true},
      // trans_a, trans_b, alpha, beta
      {KEEL_OP_BATCHED_MATMUL,
       {{{3}, {1}, {17}, {2}, {0}}, kSides, kSides, kSides},
       {kEither, kEither, kAlphas, kBetas},
       batched_matmul_tensors,
       {},
       true},
      // trans_a, alpha, beta, activation
      {KEEL_OP_PACKED_MATMUL,
       {kSides, kSides, kSides},
       {kEither, kAlphas, kBetas, kActivations},
       packed_matmul_tensors,
       {},
       true},
      {KEEL_OP_PACK_WEIGHTS, {kSides, kSides}, {kEither}, pack_tensors, {}, true},
  };
}

}  // namespace keel::ops
