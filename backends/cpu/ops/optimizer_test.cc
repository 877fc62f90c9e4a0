// SPDX-License-Identifier: Apache-2.0
// Norms, sharded losses and batches through the CPU plugin: inputs beyond the cases of the schema
// table, and independence of the number of cores.
#include <gtest/gtest.h>

#include <keel/float_types.hpp>
#include <limits>

#include "backends/cpu/testing/ops_fixture.h"

namespace keel::cpu::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

INSTANTIATE_TEST_SUITE_P(Cores, CpuOps, ::testing::Values("1", "2"),
                         [](const auto& info) { return std::string("cores") + info.param; });

TEST_P(CpuOps, SumOfSquaresOfManyKeepsItsDigits) {
  const size_t count = size_t{1} << 23;
  const DeviceTensor x = floats({int64_t{1} << 23}, std::vector<float>(count, 0.1f));
  const DeviceTensor total = floats({}, {0});
  const DeviceTensor found = tensor<int32_t>(KEEL_INT32, {}, {7});
  run(KEEL_OP_SUM_OF_SQUARES, {x, nullptr}, {total, found});
  const double want = static_cast<double>(0.1f * 0.1f) * static_cast<double>(count);
  EXPECT_NEAR(values(total)[0], want, 1e-6 * want);
  EXPECT_EQ(values<int32_t>(found)[0], 0);
}

TEST_P(CpuOps, SumOfSquaresThatOverflowsFindsNothing) {
  const DeviceTensor x = floats({3}, {1e20f, 1, 2});
  const DeviceTensor total = floats({}, {0});
  const DeviceTensor found = tensor<int32_t>(KEEL_INT32, {}, {7});
  run(KEEL_OP_SUM_OF_SQUARES, {x, nullptr}, {total, found});
  EXPECT_EQ(values(total)[0], kInfinity);
  EXPECT_EQ(values<int32_t>(found)[0], 0);
  // For the next call the infinity is an input.
  run(KEEL_OP_SUM_OF_SQUARES, {floats({1}, {1}), total}, {total, found});
  EXPECT_EQ(values(total)[0], kInfinity);
  EXPECT_EQ(values<int32_t>(found)[0], 1);
}

TEST_P(CpuOps, ClipReadsTheSumWhenItsTurnComes) {
  const DeviceTensor g = floats({2}, {3, -4});
  const DeviceTensor total = floats({}, {kInfinity});
  const DeviceTensor found = tensor<int32_t>(KEEL_INT32, {}, {0});
  const DeviceTensor clipped = floats({2}, {7, 7});
  run(KEEL_OP_CLIP, {g, total}, {clipped}, {real(1)});
  EXPECT_EQ(values(clipped), (std::vector<float>{0, 0}));
  run(KEEL_OP_SUM_OF_SQUARES, {g, nullptr}, {total, found});
  run(KEEL_OP_CLIP, {g, total}, {clipped}, {real(1)});
  const std::vector<float> got = values(clipped);
  EXPECT_NEAR(got[0], 0.6, 1e-6);
  EXPECT_NEAR(got[1], -0.8, 1e-6);
}

// bfloat16 rows are widened in blocks of 2048.
TEST_P(CpuOps, ShardRowsOfSeveralBlocks) {
  const int64_t v = 5000;
  std::vector<float> logits(v, 0);
  logits[10] = -kInfinity;
  logits[4500] = 2;
  const DeviceTensor wide = floats({1, v}, logits);
  const DeviceTensor narrow = tensor<bfloat16_t>(
      KEEL_BFLOAT16, {1, v}, narrowed<bfloat16_t>(logits, [](float x) { return to_bfloat16(x); }));
  const DeviceTensor labels = tensor<int32_t>(KEEL_INT32, {1}, {104500});
  const DeviceTensor logsumexp = floats({1}, {9});
  const DeviceTensor max = floats({1}, {7});
  const DeviceTensor sum_exp = floats({1}, {7});
  const DeviceTensor target = floats({1}, {7});
  for (const DeviceTensor* row : {&wide, &narrow}) {
    run(KEEL_OP_CROSS_ENTROPY_SHARD, {*row, labels}, {max, sum_exp, target}, {integer(100000)});
    EXPECT_EQ(values(max)[0], 2);
    EXPECT_NEAR(values(sum_exp)[0], 1 + 4998 * std::exp(-2.0), 1e-3);
    EXPECT_EQ(values(target)[0], 2);
    run(KEEL_OP_CROSS_ENTROPY_SHARD_BACKWARD, {*row, labels, logsumexp}, {*row},
        {real(0.5), integer(100000)});
  }
  const auto softmax = [&](size_t i) {
    return 0.5 * (std::exp(static_cast<double>(logits[i]) - 9) - (i == 4500 ? 1 : 0));
  };
  expect_near(values(wide), softmax, 1e-6, 1e-9);
  std::vector<float> rounded;
  for (const bfloat16_t value : values<bfloat16_t>(narrow)) rounded.push_back(to_float(value));
  expect_near(rounded, softmax, 4e-3, 1e-9);
}

// Many small products are distributed whole, few large ones as tiles.
TEST_P(CpuOps, BatchesOfAnySize) {
  struct Extents {
    int64_t batch, m, n, k;
  };
  for (const auto& [batch, m, n, k] : {Extents{500, 9, 7, 11}, Extents{1, 150, 170, 90}}) {
    const auto count = [](int64_t a, int64_t b, int64_t c) {
      return static_cast<size_t>(a * b * c);
    };
    const std::vector<float> a_values = random_values(count(batch, m, k), 1);
    const std::vector<float> b_values = random_values(count(batch, k, n), 2);
    const DeviceTensor a = floats({batch, m, k}, a_values);
    const DeviceTensor b = floats({batch, k, n}, b_values);
    const DeviceTensor c = floats({batch, m, n}, std::vector<float>(count(batch, m, n), 7));
    run(KEEL_OP_BATCHED_MATMUL, {a, b}, {c}, {integer(0), integer(0), real(1), real(0)});
    expect_near(
        values(c),
        [&](size_t i) {
          const auto column = static_cast<int64_t>(i) % n;
          const auto row = static_cast<int64_t>(i) / n % m;
          const auto each = static_cast<int64_t>(i) / n / m;
          double sum = 0;
          for (int64_t l = 0; l < k; ++l) {
            sum += static_cast<double>(a_values[static_cast<size_t>((each * m + row) * k + l)]) *
                   static_cast<double>(b_values[static_cast<size_t>((each * k + l) * n + column)]);
          }
          return sum;
        },
        1e-5, 1e-4);
  }
}

TEST_P(CpuOps, AdamwTakesGradientsInBfloat16) {
  const int64_t count = 101;
  const std::vector<float> g = random_values(count, 1);
  const auto narrow = narrowed<bfloat16_t>(g, [](float x) { return to_bfloat16(x); });
  std::vector<float> rounded;
  for (const bfloat16_t value : narrow) rounded.push_back(to_float(value));
  const std::vector<keel_attribute> attributes = {real(0.1),  real(0.9),  real(0.999), real(1e-8),
                                                  real(0.01), integer(3), real(0.5)};
  const DeviceTensor p = floats({count}, random_values(count, 2));
  const DeviceTensor zeros = floats({count}, std::vector<float>(count, 0.25f));
  std::vector<std::vector<float>> results;
  for (const bool is_narrow : {false, true}) {
    const DeviceTensor gradient =
        is_narrow ? tensor<bfloat16_t>(KEEL_BFLOAT16, {count}, narrow) : floats({count}, rounded);
    const DeviceTensor p_out = floats({count}, std::vector<float>(count));
    const DeviceTensor m_out = floats({count}, std::vector<float>(count));
    const DeviceTensor v_out = floats({count}, std::vector<float>(count));
    run(KEEL_OP_ADAMW, {p, gradient, zeros, zeros}, {p_out, m_out, v_out}, attributes);
    for (const DeviceTensor* out : {&p_out, &m_out, &v_out}) results.push_back(values(*out));
  }
  for (size_t out = 0; out < 3; ++out) EXPECT_EQ(results[out], results[out + 3]) << out;
}

}  // namespace
}  // namespace keel::cpu::testing
