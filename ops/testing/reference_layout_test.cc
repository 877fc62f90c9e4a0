// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "ops/testing/case_builder.h"
#include "ops/testing/reference_fixture.h"

namespace keel::ops {
namespace {

std::vector<double> transposed_by(const std::vector<int64_t>& shape, uint64_t order,
                                  const std::vector<float>& values) {
  std::vector<int64_t> result;
  for (size_t axis = shape.size(); axis-- > 0;) result.push_back(shape[order >> 4 * axis & 15]);
  Host x(shape, values);
  Host y(result, std::vector<float>(values.size()));
  return run(KEEL_OP_TRANSPOSE, {&x.tensor}, {&y.tensor},
             {int_attribute(static_cast<int64_t>(order))})
      .outputs[0]
      .values;
}

std::vector<float> counted(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

TEST(Transpose, OfAMatrix) {
  EXPECT_EQ(transposed_by({2, 3}, 0x10, counted(6)), (std::vector<double>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(transposed_by({2, 3}, 0x01, counted(6)), (std::vector<double>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(transposed_by({}, 0, {5}), (std::vector<double>{5}));
}

// y[i,j,k] of order 0x201 is x[j,k,i].
TEST(Transpose, NamesTheAxisOfX) {
  const std::vector<double> y = transposed_by({2, 3, 4}, 0x201, counted(24));
  for (size_t i = 0; i < 4; ++i) {
    for (size_t j = 0; j < 2; ++j) {
      for (size_t k = 0; k < 3; ++k) {
        EXPECT_EQ(y[(i * 2 + j) * 3 + k], static_cast<double>((j * 3 + k) * 4 + i));
      }
    }
  }
}

TEST(Transpose, ThereAndBack) {
  const std::vector<float> values = counted(2 * 3 * 4 * 5);
  const std::vector<double> there = transposed_by({2, 3, 4, 5}, 0x2031, values);  // [4,2,5,3]
  const std::vector<double> back =
      transposed_by({4, 2, 5, 3}, 0x1302, std::vector<float>(there.begin(), there.end()));
  EXPECT_EQ(back, std::vector<double>(values.begin(), values.end()));
}

// The gradient of a transposition is the inverse transposition.
TEST(Transpose, GradientIsTheWayBack) {
  std::vector<float> x = random_floats(2 * 3 * 4, 0);
  const std::vector<float> weights = random_floats(x.size(), 1);
  const auto loss = [&] { return dot(transposed_by({2, 3, 4}, 0x120, x), weights); };
  expect_near(transposed_by({3, 4, 2}, 0x201, weights), central_differences(&x, loss), 1e-6);
}

TEST(Transpose, RefusesWhatIsNoOrder) {
  Host x({2, 3}, counted(6));
  Host y({3, 2}, counted(6));
  const auto why = [&](int64_t order) {
    return refusal(KEEL_OP_TRANSPOSE, {&x.tensor}, {&y.tensor}, {int_attribute(order)});
  };
  EXPECT_EQ(why(0x11), "transpose: attribute order: 0x11 does not name each of x's 2 axes once");
  EXPECT_EQ(why(0x20), "transpose: attribute order: 0x20 does not name each of x's 2 axes once");
  EXPECT_EQ(why(0x210), "transpose: attribute order: 0x210 does not name each of x's 2 axes once");
  EXPECT_EQ(why(0x01), "transpose: output y: its shape is [3,2], not [2,3]");
}

}  // namespace
}  // namespace keel::ops
