// SPDX-License-Identifier: Apache-2.0
// Tests the reference of rope: by hand, and its inverse against central differences.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/testing/case_builder.h"
#include "ops/testing/reference_fixture.h"

namespace keel::ops {
namespace {

const std::vector<keel_attribute> kHalves = {int_attribute(0), int_attribute(0)};
const std::vector<keel_attribute> kPairs = {int_attribute(1), int_attribute(0)};

// Angles of 0, 90 and 180 degrees in the first column, 0, 180 and 90 in the second.
struct Tables {
  Host cosine{{3, 2}, std::vector<float>{1, 1, 0, -1, -1, 0}};
  Host sine{{3, 2}, std::vector<float>{0, 0, 1, 0, 0, 1}};
};

TEST(RopeReference, ByHand) {
  Tables tables;
  Host x({3, 1, 4}, std::vector<float>{1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4});
  Host positions({3}, std::vector<int32_t>{1, 0, 2});
  Host y({3, 1, 4}, std::vector<float>(12));
  const auto turned = [&](const std::vector<keel_attribute>& attributes) {
    return run(KEEL_OP_ROPE,
               {&x.tensor, &tables.cosine.tensor, &tables.sine.tensor, &positions.tensor},
               {&y.tensor}, attributes)
        .outputs[0]
        .values;
  };
  // (1, 3) by 90 degrees is (-3, 1), (2, 4) by 180 is (-2, -4).
  expect_near(turned(kHalves), {-3, -2, 1, -4, 1, 2, 3, 4, -1, -4, -3, 2}, 0);
  expect_near(turned(kPairs), {-2, 1, -3, -4, 1, 2, 3, 4, -1, -2, -4, 3}, 0);
  // By -90 degrees: (3, -1).
  expect_near(turned({int_attribute(0), int_attribute(1)}),
              {3, -2, -1, -4, 1, 2, 3, 4, -1, 4, -3, -2}, 0);
}

TEST(RopeReference, PositionsOutsideTheTablesGiveZeroes) {
  Tables tables;
  Host x({3, 1, 4}, std::vector<float>(12, std::nanf("")));
  std::fill(x.floats.begin(), x.floats.begin() + 4, 5.0f);
  Host positions({3}, std::vector<int32_t>{0, -1, 3});
  Host y({3, 1, 4}, std::vector<float>(12));
  const ReferenceResult result =
      run(KEEL_OP_ROPE, {&x.tensor, &tables.cosine.tensor, &tables.sine.tensor, &positions.tensor},
          {&y.tensor}, kHalves);
  expect_near(result.outputs[0].values, {5, 5, 5, 5, 0, 0, 0, 0, 0, 0, 0, 0}, 0);
}

// Holds for arbitrary tables, not only for rotations.
TEST(RopeReference, InverseIsTheGradient) {
  Host x({4, 2, 6}, random_floats(48, 0));
  Host cosine({5, 3}, random_floats(15, 1));
  Host sine({5, 3}, random_floats(15, 2));
  Host dy({4, 2, 6}, random_floats(48, 3));
  Host positions({4}, std::vector<int32_t>{4, 0, 7, 2});
  Host y({4, 2, 6}, std::vector<float>(48));
  const auto turned = [&](const Host& from, int64_t interleaved, int64_t inverse) {
    return run(KEEL_OP_ROPE, {&from.tensor, &cosine.tensor, &sine.tensor, &positions.tensor},
               {&y.tensor}, {int_attribute(interleaved), int_attribute(inverse)})
        .outputs[0]
        .values;
  };
  for (const int64_t interleaved : {0, 1}) {
    const std::vector<double> want =
        central_differences(&x.floats, [&] { return dot(turned(x, interleaved, 0), dy.floats); });
    expect_near(turned(dy, interleaved, 1), want, 1e-9);
  }
}

TEST(RopeShapes, WhatDoesNotFitIsNamed) {
  Host x({3, 2, 4}, std::vector<float>(24));
  Host odd({3, 2, 3}, std::vector<float>(18));
  Host table({5, 2}, std::vector<float>(10));
  Host short_table({4, 2}, std::vector<float>(8));
  Host positions({3}, std::vector<int32_t>(3));
  Host few({2}, std::vector<int32_t>(2));
  EXPECT_EQ(refusal(KEEL_OP_ROPE, {&odd.tensor, &table.tensor, &table.tensor, &positions.tensor},
                    {&odd.tensor}, kHalves),
            "rope: input x: its heads have no pairs");
  EXPECT_EQ(
      refusal(KEEL_OP_ROPE, {&x.tensor, &table.tensor, &short_table.tensor, &positions.tensor},
              {&x.tensor}, kHalves),
      "rope: input sin: its shape is [4,2], not [5,2]");
  EXPECT_EQ(refusal(KEEL_OP_ROPE, {&x.tensor, &table.tensor, &table.tensor, &few.tensor},
                    {&x.tensor}, kHalves),
            "rope: input positions: its shape is [2], not [3]");
}

}  // namespace
}  // namespace keel::ops
