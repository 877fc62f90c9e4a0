// SPDX-License-Identifier: Apache-2.0
// Tests the references of activations with a gate or a bias: by hand, and gradients against central
// differences of the forward references.
#include <gtest/gtest.h>

#include <cmath>
#include <keel/plugin_kit.hpp>
#include <limits>

#include "ops/testing/case_builder.h"
#include "ops/testing/case_data.h"
#include "ops/testing/reference_fixture.h"

namespace keel::ops {
namespace {

// A float32 tensor on the host.
struct Floats {
  Floats(std::initializer_list<int64_t> shape, std::vector<float> given)
      : values(std::move(given)), tensor(kit::make_tensor(values.data(), KEEL_FLOAT32, shape)) {}
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;

  std::vector<float> values;
  keel_tensor tensor;
};

std::vector<float> spread_floats(size_t count, uint32_t stream) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(
        4 * (static_cast<double>(random_bits(13, 17, stream, i) >> 11) * 0x1p-52 - 1));
  }
  return values;
}

// Returns the values of the only output.
std::vector<double> run(keel_op_id op, const Tensors& inputs, const keel_tensor& output,
                        const std::vector<keel_attribute>& attributes = {}) {
  return ops::run(op, inputs, {&output}, attributes).outputs.at(0).values;
}

TEST(SwigluReference, ByHand) {
  // The sigmoid of log 3 is 3/4.
  const auto log3 = static_cast<float>(std::log(3.0));
  Floats x({2, 4}, {0, log3, 5, 8, 100, -log3, 2, 4});
  Floats y({2, 2}, std::vector<float>(4));
  expect_near(run(KEEL_OP_SWIGLU, {&x.tensor}, y.tensor),
              {0, 6 * std::log(3.0), 200, -std::log(3.0)}, 1e-6);
}

TEST(SwigluReference, Gradient) {
  Floats x({3, 10}, spread_floats(30, 0));
  Floats dy({3, 5}, spread_floats(15, 1));
  Floats y({3, 5}, std::vector<float>(15));
  Floats dx({3, 10}, std::vector<float>(30));
  const std::vector<double> want = central_differences(
      &x.values, [&] { return dot(run(KEEL_OP_SWIGLU, {&x.tensor}, y.tensor), dy.values); });
  expect_near(run(KEEL_OP_SWIGLU_BACKWARD, {&x.tensor, &dy.tensor}, dx.tensor), want, 1e-5);
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(SwigluReference, GatesBeyondAllBoundsGiveTheLimits) {
  Floats x({5, 2}, {-kInfinity, 1, -3e38f, 1, 1e37f, 1, 3e38f, 1, kInfinity, 1});
  Floats dy({5, 1}, {1, 1, 1, 1, 1});
  Floats y({5, 1}, std::vector<float>(5));
  Floats dx({5, 2}, std::vector<float>(10));
  const std::vector<double> silu = {0, 0, 1e37f, 3e38f, kInfinity};
  EXPECT_EQ(run(KEEL_OP_SWIGLU, {&x.tensor}, y.tensor), silu);
  const auto got = run(KEEL_OP_SWIGLU_BACKWARD, {&x.tensor, &dy.tensor}, dx.tensor);
  EXPECT_EQ(got, (std::vector<double>{0, silu[0], 0, silu[1], 1, silu[2], 1, silu[3], 1, silu[4]}));
}

TEST(BiasGeluReference, ArgumentsBeyondAllBoundsGiveTheLimits) {
  Floats x({1, 4}, {-kInfinity, -3e38f, 3e38f, kInfinity});
  Floats dy({1, 4}, {1, 1, 1, 1});
  Floats y({1, 4}, std::vector<float>(4));
  for (const int64_t form : {0, 1}) {
    EXPECT_EQ(run(KEEL_OP_BIAS_GELU, {&x.tensor, nullptr}, y.tensor, {int_attribute(form)}),
              (std::vector<double>{0, 0, 3e38f, kInfinity}));
    EXPECT_EQ(run(KEEL_OP_BIAS_GELU_BACKWARD, {&x.tensor, nullptr, &dy.tensor}, y.tensor,
                  {int_attribute(form)}),
              (std::vector<double>{0, 0, 1, 1}));
  }
}

TEST(ClampReference, AtKnownPoints) {
  Floats x({5}, {-3, -1, 0.5f, 2, NAN});
  Floats dy({5}, {1, 2, 3, 4, 5});
  Floats y({5}, std::vector<float>(5));
  const auto clamp = [&](double low, double high) {
    std::vector<double> got =
        run(KEEL_OP_CLAMP, {&x.tensor}, y.tensor, {float_attribute(low), float_attribute(high)});
    EXPECT_TRUE(std::isnan(got.back()));
    got.pop_back();
    return got;
  };
  EXPECT_EQ(clamp(-1, 1), (std::vector<double>{-1, -1, 0.5, 1}));
  EXPECT_EQ(clamp(-kInfinity, kInfinity), (std::vector<double>{-3, -1, 0.5, 2}));
  EXPECT_EQ(clamp(1, -1), (std::vector<double>{-1, -1, -1, -1}));
  EXPECT_EQ(clamp(NAN, 1), (std::vector<double>{-3, -1, 0.5, 1}));
  // Elements on a bound pass.
  EXPECT_EQ(run(KEEL_OP_CLAMP_BACKWARD, {&x.tensor, &dy.tensor}, y.tensor,
                {float_attribute(-1), float_attribute(1)}),
            (std::vector<double>{0, 2, 3, 0, 0}));
}

TEST(BiasGeluReference, AtKnownPoints) {
  Floats x({2, 2}, {0, 1, -1, 9});
  Floats bias({2}, {1, 1});
  Floats y({2, 2}, std::vector<float>(4));
  expect_near(run(KEEL_OP_BIAS_GELU, {&x.tensor, &bias.tensor}, y.tensor, {int_attribute(0)}),
              {0.8411919906082768, 1.954597694087775, 0, 10}, 1e-12);
  // The normal distribution function is 0.8413447... at 1 and 0.9772498... at 2.
  expect_near(run(KEEL_OP_BIAS_GELU, {&x.tensor, &bias.tensor}, y.tensor, {int_attribute(1)}),
              {0.8413447460685429, 2 * 0.9772498680518208, 0, 10}, 1e-12);
  expect_near(run(KEEL_OP_BIAS_GELU, {&x.tensor, nullptr}, y.tensor, {int_attribute(1)}),
              {0, 0.8413447460685429, -0.15865525393145707, 9}, 1e-12);
}

TEST(BiasGeluReference, Gradient) {
  Floats x({8, 5}, spread_floats(40, 0));
  Floats bias({5}, spread_floats(5, 1));
  Floats dy({8, 5}, spread_floats(40, 2));
  Floats y({8, 5}, std::vector<float>(40));
  for (const int64_t form : {0, 1}) {
    for (const keel_tensor* given : {&bias.tensor, static_cast<keel_tensor*>(nullptr)}) {
      const std::vector<double> want = central_differences(&x.values, [&] {
        return dot(run(KEEL_OP_BIAS_GELU, {&x.tensor, given}, y.tensor, {int_attribute(form)}),
                   dy.values);
      });
      expect_near(run(KEEL_OP_BIAS_GELU_BACKWARD, {&x.tensor, given, &dy.tensor}, y.tensor,
                      {int_attribute(form)}),
                  want, 1e-5);
    }
  }
}

}  // namespace
}  // namespace keel::ops
