// SPDX-License-Identifier: Apache-2.0
// Cases with extreme extents: rows longer than any kernel's blocks; more rows than a grid's axis or
// 16 bits can count; more rows than one thread's piece; tables with more rows than 16 bits can
// index; and one non-finite element at each end of the pieces into which kernels split a tensor.
#include <cmath>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

#include "ops/schema.h"
#include "ops/testing/case_builder.h"
#include "ops/testing/case_generators.h"
#include "ops/testing/case_plans.h"

namespace keel::ops {
namespace {

using D = Distribution;

enum class Dtypes : uint8_t { kFirst, kAll };

struct Far {
  keel_op_id op;
  std::vector<double> attributes;  // empty: the usual ones
  Dtypes dtypes;
  std::vector<Extents> extents;
  // If kernels of several operators traverse rows alike, only one of the operators has many rows in
  // the quick profile: 65601 thread groups take an emulated chip up to three seconds.
  std::vector<Extents> extents_of_full_profile = {};
};

constexpr int64_t kPast16 = 65601;  // past 2^16 and past the 65535 blocks of a grid's axis
// Rows of a table, of which half are past 2^16: drawn indices reach them.
constexpr int64_t kLargeTable = 131'101;
// More than 2^16 elements, with a tail: the CPU starts a second piece there.
const Extents kPastAPiece = {3, 21851};
const Extents kLongRows = {2, 5003};
const Extents kLongRow = {1, kPast16};
const Extents kManyRows = {kPast16, 1};
const Extents kManyPairs = {kPast16, 2};

std::vector<Far> fars() {
  constexpr double kLastFirst =
      0x1p31 - kLargeTable;  // makes the last row's index the largest int32
  return {
      {KEEL_OP_FILL, {3}, Dtypes::kAll, {kPastAPiece}},
      {KEEL_OP_CAST, {}, Dtypes::kAll, {kPastAPiece}},
      {KEEL_OP_ADD, {}, Dtypes::kFirst, {kPastAPiece}},
      {KEEL_OP_SCALE, {-1.7}, Dtypes::kFirst, {kPastAPiece}},
      {KEEL_OP_AXPY, {0.3}, Dtypes::kFirst, {kPastAPiece}},
      {KEEL_OP_CLAMP, {-0.5, 0.75}, Dtypes::kFirst, {kPastAPiece}},
      {KEEL_OP_CLAMP_BACKWARD, {-0.5, 0.75}, Dtypes::kFirst, {kPastAPiece}},
      {KEEL_OP_GELU, {1}, Dtypes::kFirst, {kPastAPiece}},
      {KEEL_OP_GELU_BACKWARD, {1}, Dtypes::kFirst, {kPastAPiece}},
      {KEEL_OP_ADAMW, {0.5, 0.5, 0.9, 0.1, 0.5, 1000, 0x1p-10}, Dtypes::kFirst, {kPastAPiece}},
      {KEEL_OP_DROPOUT_ADD, {0.5, 12345, 7}, Dtypes::kFirst, {kPastAPiece, kManyPairs}},
      {KEEL_OP_DROPOUT_BACKWARD, {0.5, 12345, 7}, Dtypes::kFirst, {kPastAPiece}},
      {KEEL_OP_CLIP, {0.05}, Dtypes::kFirst, {kPastAPiece}},
      {KEEL_OP_SWIGLU, {}, Dtypes::kFirst, {kPastAPiece, kManyRows}},
      {KEEL_OP_SWIGLU_BACKWARD, {}, Dtypes::kFirst, {kPastAPiece, kManyRows}},
      {KEEL_OP_BIAS_GELU, {1}, Dtypes::kFirst, {kPastAPiece, kManyPairs}},
      {KEEL_OP_BIAS_GELU_BACKWARD, {1}, Dtypes::kFirst, {kPastAPiece, kManyPairs}},
      // tokens, heads, width, positions
      {KEEL_OP_ROPE,
       {0, 1},
       Dtypes::kFirst,
       {{300, 1, 2, kLargeTable}, {kPast16, 1, 2, 5}, {2, 1, 5002, 3}, {1, kPast16, 2, 3}}},
      {KEEL_OP_ROPE, {1, 0}, Dtypes::kFirst, {{300, 1, 2, kLargeTable}, {2, 1, 5002, 3}}},

      {KEEL_OP_SUM, {1}, Dtypes::kAll, {kLongRows}},
      {KEEL_OP_SUM, {0}, Dtypes::kAll, {{5003, 2}, {2, kPast16}}},
      {KEEL_OP_LAYER_NORM, {3}, Dtypes::kAll, {kLongRows}},
      {KEEL_OP_LAYER_NORM, {3}, Dtypes::kFirst, {kLongRow}, {kManyPairs}},
      {KEEL_OP_RMS_NORM, {3}, Dtypes::kAll, {kLongRows}},
      {KEEL_OP_RMS_NORM, {3}, Dtypes::kFirst, {kLongRow, kManyPairs}},
      {KEEL_OP_LAYER_NORM_BACKWARD, {}, Dtypes::kAll, {kLongRows}},
      {KEEL_OP_LAYER_NORM_BACKWARD, {}, Dtypes::kFirst, {kLongRow, kPastAPiece}, {kManyPairs}},
      {KEEL_OP_RMS_NORM_BACKWARD, {}, Dtypes::kAll, {kLongRows}},
      {KEEL_OP_RMS_NORM_BACKWARD, {}, Dtypes::kFirst, {kLongRow, kPastAPiece}, {kManyPairs}},
      // scale, causal: planes, rows, columns
      {KEEL_OP_SOFTMAX, {0.3, 0}, Dtypes::kAll, {{1, 2, 5003}}},
      {KEEL_OP_SOFTMAX,
       {0.3, 1},
       Dtypes::kFirst,
       {{1, 2, 5003}},
       {{1, kPast16, 2}, {kPast16, 1, 2}}},
      {KEEL_OP_SOFTMAX_BACKWARD, {-0.125}, Dtypes::kAll, {kLongRows}},
      {KEEL_OP_SOFTMAX_BACKWARD, {-0.125}, Dtypes::kFirst, {kLongRow}, {kManyPairs}},
      {KEEL_OP_CROSS_ENTROPY, {}, Dtypes::kAll, {kLongRows}},
      {KEEL_OP_CROSS_ENTROPY, {}, Dtypes::kFirst, {kLongRow}, {kManyPairs}},
      {KEEL_OP_CROSS_ENTROPY_BACKWARD, {0.25}, Dtypes::kAll, {kLongRows}},
      {KEEL_OP_CROSS_ENTROPY_BACKWARD, {0.25}, Dtypes::kFirst, {kLongRow, kManyPairs}},
      {KEEL_OP_CROSS_ENTROPY_SHARD, {5003}, Dtypes::kAll, {kLongRows}},
      {KEEL_OP_CROSS_ENTROPY_SHARD, {kPast16}, Dtypes::kFirst, {kLongRow}, {kManyPairs}},
      {KEEL_OP_CROSS_ENTROPY_SHARD_BACKWARD, {0.5, 5003}, Dtypes::kAll, {kLongRows}},
      {KEEL_OP_CROSS_ENTROPY_SHARD_BACKWARD,
       {0.5, kPast16},
       Dtypes::kFirst,
       {kLongRow, kManyPairs}},

      // tokens of queries, tokens of keys, heads, heads of keys, width, sequences
      {KEEL_OP_ATTENTION,
       {0.5, 1, 0, 0, 0},
       Dtypes::kFirst,
       {{2, 2051, 1, 1, 4, 1}, {2051, 2, 1, 1, 4, 1}, {300, 400, 1, 1, 4, 257}},
       {{2, 5003, 1, 1, 4, 1}}},
      {KEEL_OP_ATTENTION_BACKWARD,
       {0.5, 1, 0, 0, 0},
       Dtypes::kFirst,
       {{2, 2051, 1, 1, 4, 1}, {2051, 2, 1, 1, 4, 1}, {300, 400, 1, 1, 4, 257}},
       {{2, 5003, 1, 1, 4, 1}}},
      {KEEL_OP_ATTENTION_MERGE, {}, Dtypes::kFirst, {{kPast16, 1, 2}}},

      // rows of the table, columns, indices
      {KEEL_OP_EMBEDDING,
       {0},
       Dtypes::kFirst,
       {{kLargeTable, 1, 300}, {7, 1, kPast16}, {3, 5003, 15}}},
      {KEEL_OP_EMBEDDING, {kLastFirst}, Dtypes::kAll, {{kLargeTable, 1, 300}}},
      {KEEL_OP_EMBEDDING_BACKWARD,
       {0},
       Dtypes::kFirst,
       {{7, 1, kPast16}, {3, 5003, 15}, {9, 1027, 129}}},
      {KEEL_OP_EMBEDDING_BACKWARD, {kLastFirst}, Dtypes::kFirst, {{kLargeTable, 1, 300}}},

      // m, n, k: more than the CPU's blocks, deep, and thin in each direction
      {KEEL_OP_MATMUL, {0, 0, 1, 0, 0}, Dtypes::kAll, {{200, 70, 400}, {70, 800, 70}}},
      {KEEL_OP_MATMUL, {1, 1, -0.7, 0.3, 0}, Dtypes::kFirst, {{200, 70, 400}}},
      {KEEL_OP_MATMUL,
       {0, 0, 1, 0, 0},
       Dtypes::kFirst,
       {{kPast16, 1, 1}, {65, 65, 1030}},
       {{1, kPast16, 1}, {1, 1, kPast16}}},
      {KEEL_OP_PACKED_MATMUL, {0, 1, 0, 0}, Dtypes::kAll, {{200, 70, 400}, {3, 800, 70}}},
      {KEEL_OP_PACK_WEIGHTS, {0}, Dtypes::kAll, {{200, 300}}},
      {KEEL_OP_PACK_WEIGHTS, {1}, Dtypes::kAll, {{200, 300}}},
      // batch, m, n, k
      {KEEL_OP_BATCHED_MATMUL, {0, 0, 1, 0}, Dtypes::kFirst, {{300, 1, 1, 1}, {2, 100, 70, 400}}},
  };
}

void add_far(const Far& far, std::vector<Case>* cases) {
  const CasePlan& plan = *find_plan(far.op);
  PlannedCall call;
  call.attributes = far.attributes;
  if (call.attributes.empty()) {
    for (const auto& values : plan.attributes) call.attributes.push_back(values[0]);
  }
  const size_t combinations =
      far.dtypes == Dtypes::kAll ? size_t{common_combinations(far.op)} : size_t{1};
  const auto add = [&](const std::vector<Extents>& some, Profile profile) {
    for (const Extents& extents : some) {
      call.extents = extents;
      for (uint32_t c = 0; c < combinations; ++c) {
        cases->push_back(
            planned_case(plan, c, call, planned_tensors(plan, c, call), "extent/", ""));
        cases->back().profile = profile;
      }
    }
  };
  add(far.extents, Profile::kQuick);
  add(far.extents_of_full_profile, Profile::kFull);
}

// ---- one element of a whole tensor, or of all keys --------------------------------------

void set_lone(CaseTensor* tensor, double value, int64_t of, std::vector<int64_t> places) {
  tensor->distribution = D::kLone;
  tensor->lone = value;
  tensor->bound = of;
  tensor->places = std::move(places);
}

// Operators that reduce a whole tensor: the element at both ends of the tensor and of kernels'
// blocks.
void add_lone_of_all(keel_op_id op, std::vector<Case>* cases) {
  if (op != KEEL_OP_SUM && op != KEEL_OP_SUM_OF_SQUARES && op != KEEL_OP_CAST_SCALED) return;
  const CasePlan& plan = *find_plan(op);
  const auto combinations = static_cast<uint32_t>(find_schema(op)->dtypes.size());
  constexpr int64_t kCount = 16387;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  PlannedCall call = {{1, kCount}, {}};
  if (op == KEEL_OP_SUM) call.attributes = {-1};
  uint32_t turn = 0;
  for (const int64_t place : {0, 255, 256, 4095, 4096, 8191, 8192, 16384, 16386}) {
    for (const double value : {std::nan(""), kInfinity}) {
      const uint32_t c = turn++ % combinations;
      PlannedTensors tensors = planned_tensors(plan, c, call);
      // e4m3 has no infinity: the largest value instead.
      set_lone(&tensors.inputs[0], value, kCount, {place});
      cases->push_back(planned_case(
          plan, c, call, std::move(tensors), "lone/",
          std::string(std::isnan(value) ? "/nan_at_" : "/inf_at_") + std::to_string(place)));
    }
  }
}

// A non-finite key or value: every query that sees it yields NaN, and no other query does.
void add_lone_key(keel_op_id op, std::vector<Case>* cases) {
  if (op != KEEL_OP_ATTENTION && op != KEEL_OP_ATTENTION_BACKWARD) return;
  const CasePlan& plan = *find_plan(op);
  const auto combinations = static_cast<uint32_t>(find_schema(op)->dtypes.size());
  constexpr int64_t kTokens = 67;
  constexpr int64_t kWidth = 4;
  constexpr const char* kNames[] = {"/q_nan_at_", "/k_nan_at_", "/v_nan_at_"};
  uint32_t turn = 0;
  for (const int64_t token : {0, 63, 64, 66}) {
    for (size_t input = 0; input < std::size(kNames); ++input) {
      const uint32_t c = turn++ % combinations;
      const PlannedCall call = {{kTokens, kTokens, 1, 1, kWidth, 1}, {0.5, 1, 0, 0, 0}};
      PlannedTensors tensors = planned_tensors(plan, c, call);
      for (const uint32_t boundaries : plan.together) tensors.inputs[boundaries] = absent();
      tensors.inputs.back() = absent();  // the mask
      set_lone(&tensors.inputs[input], std::nan(""), kTokens * kWidth, {token * kWidth + 1});
      cases->push_back(planned_case(plan, c, call, std::move(tensors), "lone/",
                                    kNames[input] + std::to_string(token)));
    }
  }
}

}  // namespace

std::vector<Case> extent_cases(keel_op_id op) {
  std::vector<Case> cases;
  for (const Far& far : fars()) {
    if (far.op == op) add_far(far, &cases);
  }
  add_lone_of_all(op, &cases);
  add_lone_key(op, &cases);
  return cases;
}

}  // namespace keel::ops
