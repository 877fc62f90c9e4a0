// SPDX-License-Identifier: Apache-2.0
// Cases of losses over a sharded vocabulary.
#include <string>
#include <utility>

#include "ops/testing/case_builder.h"
#include "ops/testing/case_generators.h"

namespace keel::ops {
namespace {

using D = Distribution;

struct ShardOptions {
  D logits = D::kLogits;
  D labels = D::kIndices;
  D logsumexp = D::kLogSumExp;  // input of the gradient
  int64_t padding = 0;
  const char* name = "";
};

// The shard is the second of three.
constexpr int64_t kShards = 3;

std::string rows_text(int64_t n, int64_t v, const ShardOptions& options) {
  return std::string("n") + std::to_string(n) + "_v" + std::to_string(v) + options.name;
}

CaseTensor logits_tensor(keel_dtype dtype, int64_t n, int64_t v, const ShardOptions& options) {
  CaseTensor tensor = dense(dtype, {n, v}, options.logits, v);
  return options.padding == 0 ? tensor : padded(std::move(tensor), options.padding);
}

Case shard_case(uint32_t combination, int64_t n, int64_t v, const ShardOptions& options) {
  const keel_dtype dtype = find_schema(KEEL_OP_CROSS_ENTROPY_SHARD)->dtypes[combination].inputs[0];
  const CaseTensor result = dense(KEEL_FLOAT32, {n}, D::kNaN);
  return make_case(
      KEEL_OP_CROSS_ENTROPY_SHARD, combination, rows_text(n, v, options),
      {logits_tensor(dtype, n, v, options), dense(KEEL_INT32, {n}, options.labels, kShards * v)},
      {result, result, result}, {int_attribute(v)});
}

Case shard_backward_case(uint32_t combination, int64_t n, int64_t v, const ShardOptions& options) {
  const keel_dtype dtype =
      find_schema(KEEL_OP_CROSS_ENTROPY_SHARD_BACKWARD)->dtypes[combination].inputs[0];
  return make_case(
      KEEL_OP_CROSS_ENTROPY_SHARD_BACKWARD, combination, rows_text(n, v, options),
      {logits_tensor(dtype, n, v, options), dense(KEEL_INT32, {n}, options.labels, kShards * v),
       dense(KEEL_FLOAT32, {n}, options.logsumexp)},
      {dense(dtype, {n, v}, D::kNaN)},
      {float_attribute(1.0 / static_cast<double>(n + 1)), int_attribute(v)});
}

// Shapes and contents of both directions, for logits of |dtype|, by |make(n, v, options)|.
template <typename Make>
std::vector<Case> shard_cases(keel_dtype dtype, Make&& make) {
  std::vector<Case> cases;
  const std::pair<int64_t, int64_t> shapes[] = {{0, 11},  {1, 1},     {5, 7},     {33, 129},
                                                {257, 2}, {64, 1000}, {3, 16753}, {1, 65536}};
  for (const auto& [n, v] : shapes) cases.push_back(make(n, v, ShardOptions{}));
  cases.push_back(make(67, 31, {.labels = D::kIndicesSomeOutside, .name = "/ignored"}));
  cases.push_back(make(67, 131, {.logits = D::kMaskedLogits, .name = "/masked"}));
  cases.push_back(make(257, 1, {.logits = D::kMaskedLogits, .name = "/all_masked"}));
  if (dtype != KEEL_FLOAT16) cases.push_back(make(67, 131, {.logits = D::kWide, .name = "/wide"}));
  cases.push_back(make(67, 131, {.logits = D::kOffsetLogits, .name = "/offset"}));
  cases.push_back(make(67, 131, {.logits = D::kSomeNaN, .name = "/some_nan"}));
  cases.push_back(make(67, 1031, {.logits = D::kSomeNaN, .name = "/some_nan"}));
  cases.push_back(make(67, 131, {.padding = 5, .name = "/padded"}));
  cases.push_back(make(67, 131, {.logits = D::kSubnormal, .name = "/subnormal"}));
  cases.push_back(make(67, 131, {.logits = D::kZeroes, .name = "/zeroes"}));
  return cases;
}

}  // namespace

std::vector<Case> cross_entropy_shard_cases() {
  std::vector<Case> cases;
  const Schema& schema = *find_schema(KEEL_OP_CROSS_ENTROPY_SHARD);
  for (uint32_t c = 0; c < schema.dtypes.size(); ++c) {
    const auto make = [&](int64_t n, int64_t v, const ShardOptions& options) {
      return shard_case(c, n, v, options);
    };
    for (Case& each : shard_cases(schema.dtypes[c].inputs[0], make))
      cases.push_back(std::move(each));
    cases.push_back(make(67, 31, {.logits = D::kNonFinite, .name = "/non_finite"}));
    cases.push_back(make(67, 1, {.logits = D::kNonFinite, .name = "/non_finite"}));
  }
  return cases;
}

std::vector<Case> cross_entropy_shard_backward_cases() {
  std::vector<Case> cases;
  const Schema& schema = *find_schema(KEEL_OP_CROSS_ENTROPY_SHARD_BACKWARD);
  for (uint32_t c = 0; c < schema.dtypes.size(); ++c) {
    const auto make = [&](int64_t n, int64_t v, const ShardOptions& options) {
      return shard_backward_case(c, n, v, options);
    };
    for (Case& each : shard_cases(schema.dtypes[c].inputs[0], make)) {
      // A row of only minus infinities has no logsumexp to subtract.
      if (each.id.ends_with("/all_masked")) continue;
      cases.push_back(std::move(each));
    }
    // A logsumexp that matches no row: e^(logit - logsumexp) is infinity, NaN or 0.
    cases.push_back(make(67, 31, {.logsumexp = D::kNonFinite, .name = "/logsumexp_non_finite"}));
    cases.push_back(make(67, 31, {.logsumexp = D::kSomeFarBelow, .name = "/logsumexp_far_below"}));
    cases.push_back(make(67, 31, {.logits = D::kNonFinite, .name = "/non_finite"}));
    cases.push_back(in_place(make(33, 129, {}), 0, 0));
    cases.push_back(
        in_place(make(33, 129, {.labels = D::kIndicesSomeOutside, .name = "/ignored"}), 0, 0));
  }
  return cases;
}

}  // namespace keel::ops
