// SPDX-License-Identifier: Apache-2.0
// Tests the references of normalisations and softmax: by hand, and gradients against central
// differences of the forward references.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <keel/plugin_kit.hpp>
#include <limits>
#include <numeric>

#include "ops/testing/case_builder.h"
#include "ops/testing/case_data.h"
#include "ops/testing/reference_fixture.h"

namespace keel::ops {
namespace {

// A float32 tensor on the host.
struct Floats {
  Floats(std::initializer_list<int64_t> shape, std::vector<float> given)
      : values(std::move(given)), tensor(kit::make_tensor(values.data(), KEEL_FLOAT32, shape)) {}
  explicit Floats(std::initializer_list<int64_t> shape)
      : values(static_cast<size_t>(
            std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>()))),
        tensor(kit::make_tensor(values.data(), KEEL_FLOAT32, shape)) {}
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;

  std::vector<float> values;
  keel_tensor tensor;
};

std::vector<float> random_floats(size_t count, uint32_t stream) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] =
        static_cast<float>(static_cast<double>(random_bits(7, 11, stream, i) >> 11) * 0x1p-52 - 1);
  }
  return values;
}

// Returns the values of each output.
std::vector<std::vector<double>> run(keel_op_id op, const Tensors& inputs, const Tensors& outputs,
                                     const std::vector<keel_attribute>& attributes = {}) {
  const ReferenceResult result = ops::run(op, inputs, outputs, attributes);
  std::vector<std::vector<double>> values;
  for (const ReferenceOutput& output : result.outputs) values.push_back(output.values);
  return values;
}

TEST(LayerNormReference, ByHand) {
  // Means 2 and -1; variances 2/3 and 0, which become 1 and 1/3 with eps.
  Floats x({2, 3}, {1, 2, 3, -1, -1, -1});
  Floats gamma({3}, {1, 10, 100});
  Floats beta({3}, {0.5, 0, -1});
  Floats y({2, 3}), mean({2}), rstd({2});
  const auto got = run(KEEL_OP_LAYER_NORM, {&x.tensor, &gamma.tensor, &beta.tensor},
                       {&y.tensor, &mean.tensor, &rstd.tensor}, {float_attribute(1.0 / 3)});
  expect_near(got[0], {-0.5, 0, 99, 0.5, 0, -1}, 1e-12);
  expect_near(got[1], {2, -1}, 1e-12);
  expect_near(got[2], {1, std::sqrt(3)}, 1e-12);
  const auto without = run(KEEL_OP_LAYER_NORM, {&x.tensor, &gamma.tensor, nullptr},
                           {&y.tensor, &mean.tensor, &rstd.tensor}, {float_attribute(1.0 / 3)});
  expect_near(without[0], {-1, 0, 100, 0, 0, 0}, 1e-12);
}

TEST(RmsNormReference, ByHand) {
  Floats x({2, 2}, {3, -4, 0, 0});
  Floats gamma({2}, {1, 2});
  Floats y({2, 2}), rstd({2});
  // (9 + 16) / 2 + 3.5 = 16
  const auto got = run(KEEL_OP_RMS_NORM, {&x.tensor, &gamma.tensor}, {&y.tensor, &rstd.tensor},
                       {float_attribute(3.5)});
  expect_near(got[0], {0.75, -2, 0, 0}, 1e-12);
  expect_near(got[1], {0.25, 1 / std::sqrt(3.5)}, 1e-12);
}

TEST(SoftmaxReference, ByHand) {
  const float hidden = -std::numeric_limits<float>::infinity();
  const float third = std::log(3.0f);
  Floats x({2, 2, 2}, {0, third, 5, 5, hidden, 7, hidden, hidden});
  Floats y({2, 2, 2});
  const auto all = run(KEEL_OP_SOFTMAX, {&x.tensor, nullptr}, {&y.tensor},
                       {float_attribute(1), int_attribute(0)});
  expect_near(all[0], {0.25, 0.75, 0.5, 0.5, 0, 1, 0, 0}, 1e-7);
  const auto scaled = run(KEEL_OP_SOFTMAX, {&x.tensor, nullptr}, {&y.tensor},
                          {float_attribute(2), int_attribute(0)});
  EXPECT_NEAR(scaled[0][1], 0.9, 1e-7);
  const auto causal = run(KEEL_OP_SOFTMAX, {&x.tensor, nullptr}, {&y.tensor},
                          {float_attribute(1), int_attribute(1)});
  expect_near(causal[0], {1, 0, 0.5, 0.5, 0, 0, 0, 0}, 1e-7);
}

TEST(SoftmaxReference, MasksHide) {
  Floats x({2, 2, 2}, {0, 1, std::nanf(""), 3, 4, 5, 6, 7});
  Floats y({2, 2, 2});
  std::vector<uint8_t> bytes = {0, 255, 1, 0};
  const keel_tensor of_each = kit::make_tensor(bytes.data(), KEEL_UINT8, {2, 2});
  const auto got = run(KEEL_OP_SOFTMAX, {&x.tensor, &of_each}, {&y.tensor},
                       {float_attribute(1), int_attribute(0)});
  expect_near(got[0], {1, 0, 0, 1, 1, 0, 0, 1}, 0);
  std::vector<uint8_t> more = {0, 1, 1, 0, 1, 1, 1, 1};
  const keel_tensor of_all = kit::make_tensor(more.data(), KEEL_UINT8, {2, 2, 2});
  const auto other = run(KEEL_OP_SOFTMAX, {&x.tensor, &of_all}, {&y.tensor},
                         {float_attribute(1), int_attribute(0)});
  expect_near(other[0], {1, 0, 0, 1, 0, 0, 0, 0}, 0);
}

// In a matrix wider than tall, the last row sees all columns.
TEST(SoftmaxReference, CausalRowsEndAtTheLastColumn) {
  Floats x({2, 4}, {1, 1, 1, 1, 1, 1, 1, 1});
  Floats y({2, 4});
  const auto got = run(KEEL_OP_SOFTMAX, {&x.tensor, nullptr}, {&y.tensor},
                       {float_attribute(1), int_attribute(1)});
  expect_near(got[0], {1.0 / 3, 1.0 / 3, 1.0 / 3, 0, 0.25, 0.25, 0.25, 0.25}, 1e-12);
}

// ---- gradients --------------------------------------------------------------------------

TEST(Gradient, LayerNorm) {
  Floats x({4, 6}, random_floats(24, 0));
  Floats gamma({6}, random_floats(6, 1));
  Floats beta({6}, random_floats(6, 2));
  Floats dy({4, 6}, random_floats(24, 3));
  Floats y({4, 6}), mean({4}), rstd({4}), dx({4, 6}), dgamma({6}), dbeta({6});
  const auto forward = [&] {
    return run(KEEL_OP_LAYER_NORM, {&x.tensor, &gamma.tensor, &beta.tensor},
               {&y.tensor, &mean.tensor, &rstd.tensor}, {float_attribute(0.01)});
  };
  const auto loss = [&] { return dot(forward()[0], dy.values); };
  const std::vector<double> want_dx = central_differences(&x.values, loss);
  const std::vector<double> want_dgamma = central_differences(&gamma.values, loss);
  const std::vector<double> want_dbeta = central_differences(&beta.values, loss);
  const auto statistics = forward();
  std::copy(statistics[1].begin(), statistics[1].end(), mean.values.begin());
  std::copy(statistics[2].begin(), statistics[2].end(), rstd.values.begin());
  const auto got = run(KEEL_OP_LAYER_NORM_BACKWARD,
                       {&dy.tensor, &x.tensor, &gamma.tensor, &mean.tensor, &rstd.tensor},
                       {&dx.tensor, &dgamma.tensor, &dbeta.tensor});
  expect_near(got[0], want_dx, 2e-5);
  expect_near(got[1], want_dgamma, 2e-6);
  expect_near(got[2], want_dbeta, 2e-6);
}

TEST(Gradient, RmsNorm) {
  Floats x({4, 6}, random_floats(24, 0));
  Floats gamma({6}, random_floats(6, 1));
  Floats dy({4, 6}, random_floats(24, 3));
  Floats y({4, 6}), rstd({4}), dx({4, 6}), dgamma({6});
  const auto forward = [&] {
    return run(KEEL_OP_RMS_NORM, {&x.tensor, &gamma.tensor}, {&y.tensor, &rstd.tensor},
               {float_attribute(0.01)});
  };
  const auto loss = [&] { return dot(forward()[0], dy.values); };
  const std::vector<double> want_dx = central_differences(&x.values, loss);
  const std::vector<double> want_dgamma = central_differences(&gamma.values, loss);
  const auto statistics = forward();
  std::copy(statistics[1].begin(), statistics[1].end(), rstd.values.begin());
  const auto got =
      run(KEEL_OP_RMS_NORM_BACKWARD, {&dy.tensor, &x.tensor, &gamma.tensor, &rstd.tensor},
          {&dx.tensor, &dgamma.tensor});
  expect_near(got[0], want_dx, 2e-5);
  expect_near(got[1], want_dgamma, 2e-6);
}

TEST(Gradient, Softmax) {
  Floats x({2, 3, 5}, random_floats(30, 0));
  Floats dy({2, 3, 5}, random_floats(30, 1));
  Floats y({2, 3, 5}), dx({2, 3, 5});
  const auto forward = [&] {
    return run(KEEL_OP_SOFTMAX, {&x.tensor, nullptr}, {&y.tensor},
               {float_attribute(0.7), int_attribute(1)})[0];
  };
  const std::vector<double> want =
      central_differences(&x.values, [&] { return dot(forward(), dy.values); });
  const std::vector<double> probabilities = forward();
  std::copy(probabilities.begin(), probabilities.end(), y.values.begin());
  expect_near(run(KEEL_OP_SOFTMAX_BACKWARD, {&y.tensor, &dy.tensor}, {&dx.tensor},
                  {float_attribute(0.7)})[0],
              want, 1e-6);
}

// ---- shape rules ------------------------------------------------------------------------

TEST(NormShapes, WhatDoesNotFitIsNamed) {
  Floats x({2, 3}), wide({2, 4}), row({3}), column({2}), y({2, 3}), rstd({2});
  const std::vector<keel_attribute> eps = {float_attribute(1e-5)};
  EXPECT_EQ(refusal(KEEL_OP_RMS_NORM, {&x.tensor, &column.tensor}, {&y.tensor, &rstd.tensor}, eps),
            "rms_norm: input gamma: its shape is not [3]");
  EXPECT_EQ(refusal(KEEL_OP_RMS_NORM, {&x.tensor, &row.tensor}, {&wide.tensor, &rstd.tensor}, eps),
            "rms_norm: output y: its shape is not that of x");
  EXPECT_EQ(refusal(KEEL_OP_RMS_NORM, {&x.tensor, &row.tensor}, {&y.tensor, &row.tensor}, eps),
            "rms_norm: output rstd: its shape is not that of the rows, all axes but the last");
  Floats empty({2, 0}), none({0});
  EXPECT_EQ(
      refusal(KEEL_OP_RMS_NORM, {&empty.tensor, &none.tensor}, {&empty.tensor, &rstd.tensor}, eps),
      "rms_norm: input x: its rows are empty, and have no mean");
}

TEST(SoftmaxShapes, WhatDoesNotFitIsNamed) {
  Floats x({2, 3, 4}), y({2, 3, 4});
  std::vector<uint8_t> bytes(24);
  const keel_tensor transposed_mask = kit::make_tensor(bytes.data(), KEEL_UINT8, {4, 3});
  EXPECT_EQ(refusal(KEEL_OP_SOFTMAX, {&x.tensor, &transposed_mask}, {&y.tensor},
                    {float_attribute(1), int_attribute(0)}),
            "softmax: input mask: its shape is neither [3,4] nor that of x");
}

}  // namespace
}  // namespace keel::ops
