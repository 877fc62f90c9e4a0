// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/testing/case_builder.h"
#include "ops/testing/reference_fixture.h"

namespace keel::ops {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNaN = std::nanf("");

ReferenceResult sum_of_squares(std::vector<float> values, const Host* before = nullptr) {
  const auto count = static_cast<int64_t>(values.size());
  Host x({count}, std::move(values));
  Host total({}, std::vector<float>(1));
  Host found({}, std::vector<int32_t>(1));
  return run(KEEL_OP_SUM_OF_SQUARES, {&x.tensor, before == nullptr ? nullptr : &before->tensor},
             {&total.tensor, &found.tensor});
}

TEST(SumOfSquares, OfOneTensorAndOfTwo) {
  const ReferenceResult one = sum_of_squares({3, -4});
  EXPECT_EQ(one.outputs[0].values, (std::vector<double>{25}));
  EXPECT_EQ(one.outputs[1].values, (std::vector<double>{0}));
  Host before({}, std::vector<float>{25});
  EXPECT_EQ(sum_of_squares({12}, &before).outputs[0].values, (std::vector<double>{169}));
}

TEST(SumOfSquares, FindsWhatIsNotFinite) {
  for (const float value : {kNaN, kInfinity, -kInfinity}) {
    const ReferenceResult result = sum_of_squares({1, value, 2});
    EXPECT_FALSE(std::isfinite(result.outputs[0].values[0]));
    EXPECT_EQ(result.outputs[1].values[0], 1);
    Host before({}, std::vector<float>{value});
    EXPECT_EQ(sum_of_squares({1}, &before).outputs[1].values[0], 1);
  }
  EXPECT_EQ(sum_of_squares({}).outputs[1].values[0], 0);
}

std::vector<double> clip(const std::vector<float>& g, float sum, double max_norm) {
  Host gradient({static_cast<int64_t>(g.size())}, g);
  Host squares({}, std::vector<float>{sum});
  return run(KEEL_OP_CLIP, {&gradient.tensor, &squares.tensor}, {&gradient.tensor},
             {float_attribute(max_norm)})
      .outputs[0]
      .values;
}

TEST(Clip, HoldsTheNorm) {
  expect_near(clip({3, -4}, 25, 1), {0.6, -0.8}, 1e-6);
  expect_near(clip({3, -4}, 25, 10), {3, -4}, 0);
  expect_near(clip({0, 0}, 0, 1), {0, 0}, 0);
}

TEST(Clip, WithASumThatIsNotFinite) {
  for (const double value : clip({1, 2}, kNaN, 1)) EXPECT_TRUE(std::isnan(value));
  const std::vector<double> infinite = clip({1, -2, kInfinity}, kInfinity, 1);
  EXPECT_EQ(infinite[0], 0);
  EXPECT_EQ(infinite[1], 0);
  EXPECT_TRUE(std::isnan(infinite[2]));
}

// Both operators together, on a gradient in two tensors.
TEST(Clip, OfTheNormOfAllTensors) {
  Host total({}, std::vector<float>(1));
  const std::vector<float> first = random_floats(40, 0);
  const std::vector<float> second = random_floats(60, 1);
  total.floats[0] = static_cast<float>(sum_of_squares(first).outputs[0].values[0]);
  total.floats[0] = static_cast<float>(sum_of_squares(second, &total).outputs[0].values[0]);
  double squares = 0;
  for (const auto& part : {first, second}) {
    for (const double value : clip(part, total.floats[0], 0.5)) squares += value * value;
  }
  EXPECT_NEAR(std::sqrt(squares), 0.5, 1e-6);
}

}  // namespace
}  // namespace keel::ops
