// SPDX-License-Identifier: Apache-2.0
// Tests Philox by its known answers, and the references of dropout: by hand, and the gradient
// against central differences.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "ops/testing/case_builder.h"
#include "ops/testing/philox.h"
#include "ops/testing/reference_fixture.h"

namespace keel::ops {
namespace {

TEST(Philox, KnownAnswers) {
  using Words = std::array<uint32_t, 4>;
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

std::vector<keel_attribute> attributes(double p, int64_t seed, int64_t offset) {
  return {float_attribute(p), int_attribute(seed), int_attribute(offset)};
}

std::vector<double> dropped(const Host& x, const Host* bias, const Host* residual,
                            const std::vector<keel_attribute>& given) {
  std::vector<float> values(x.floats.size());
  Host y(x.shape, values);
  return run(KEEL_OP_DROPOUT_ADD,
             {&x.tensor, bias == nullptr ? nullptr : &bias->tensor,
              residual == nullptr ? nullptr : &residual->tensor},
             {&y.tensor}, given)
      .outputs[0]
      .values;
}

// The first words of key 0 are 0.399, 0.881, 0.736 and 0.605 of 2^32.
TEST(DropoutReference, ByHand) {
  Host x({2, 2}, std::vector<float>{1, 2, 3, 4});
  Host bias({2}, std::vector<float>{10, 20});
  Host residual({2, 2}, std::vector<float>{100, 200, 300, 400});
  expect_near(dropped(x, nullptr, nullptr, attributes(0.5, 0, 0)), {0, 4, 6, 8}, 1e-12);
  expect_near(dropped(x, &bias, nullptr, attributes(0.75, 0, 0)), {0, 88, 0, 0}, 1e-12);
  expect_near(dropped(x, &bias, &residual, attributes(0.5, 0, 0)), {100, 244, 326, 448}, 1e-12);
  expect_near(dropped(x, nullptr, &residual, attributes(0, 0, 0)), {101, 202, 303, 404}, 1e-12);
  // Dropped elements are not read.
  x.floats[0] = std::nanf("");
  expect_near(dropped(x, nullptr, nullptr, attributes(0.5, 0, 0)), {0, 4, 6, 8}, 1e-12);
}

// A sequence continues where the previous one ended, n/4 counters later.
TEST(DropoutReference, OffsetsCountCounters) {
  const std::vector<float> ones(64, 1.0f);
  Host whole({64}, ones);
  Host part({32}, std::vector<float>(32, 1.0f));
  const std::vector<double> all = dropped(whole, nullptr, nullptr, attributes(0.4, -9, 5));
  const std::vector<double> later = dropped(part, nullptr, nullptr, attributes(0.4, -9, 5 + 8));
  expect_near(later, {all.begin() + 32, all.end()}, 0);
  EXPECT_NE(all, dropped(whole, nullptr, nullptr, attributes(0.4, 9, 5)));
}

TEST(DropoutReference, DropsItsPart) {
  constexpr size_t kCount = 65536;
  Host x({kCount}, std::vector<float>(kCount, 1.0f));
  for (const double p : {0.1, 0.5, 0.9}) {
    double zeroes = 0;
    for (const double value : dropped(x, nullptr, nullptr, attributes(p, 42, 0))) {
      zeroes += value == 0 ? 1 : 0;
    }
    EXPECT_NEAR(zeroes / kCount, p, 5 * std::sqrt(p * (1 - p) / kCount));  // five sigma
  }
}

TEST(DropoutReference, Gradient) {
  Host x({6, 5}, random_floats(30, 0));
  Host bias({5}, random_floats(5, 1));
  Host residual({6, 5}, random_floats(30, 2));
  Host dy({6, 5}, random_floats(30, 3));
  Host dx({6, 5}, std::vector<float>(30));
  const std::vector<keel_attribute> given = attributes(0.3, 77, 1000);
  const auto loss = [&] { return dot(dropped(x, &bias, &residual, given), dy.floats); };
  const std::vector<double> got =
      run(KEEL_OP_DROPOUT_BACKWARD, {&dy.tensor}, {&dx.tensor}, given).outputs[0].values;
  expect_near(got, central_differences(&x.floats, loss), 1e-9);
  std::vector<double> of_bias(5);
  for (size_t i = 0; i < got.size(); ++i) of_bias[i % 5] += got[i];
  expect_near(of_bias, central_differences(&bias.floats, loss), 1e-9);
  expect_near({dy.floats.begin(), dy.floats.end()}, central_differences(&residual.floats, loss),
              1e-9);
}

TEST(DropoutShapes, WhatDoesNotFitIsNamed) {
  Host x({2, 3}, std::vector<float>(6));
  Host bias({2}, std::vector<float>(2));
  Host residual({3, 2}, std::vector<float>(6));
  Host y({2, 3}, std::vector<float>(6));
  const std::vector<keel_attribute> given = attributes(0.3, 0, 0);
  EXPECT_EQ(refusal(KEEL_OP_DROPOUT_ADD, {&x.tensor, &bias.tensor, nullptr}, {&y.tensor}, given),
            "dropout_add: input bias: its shape is [2], not [3]");
  EXPECT_EQ(
      refusal(KEEL_OP_DROPOUT_ADD, {&x.tensor, nullptr, &residual.tensor}, {&y.tensor}, given),
      "dropout_add: input residual: its shape is [3,2], not [2,3]");
  EXPECT_EQ(
      refusal(KEEL_OP_DROPOUT_ADD, {&x.tensor, nullptr, nullptr}, {&y.tensor}, attributes(1, 0, 0)),
      "dropout_add: attribute p: 1 is not within [0, 1]");
}

}  // namespace
}  // namespace keel::ops
