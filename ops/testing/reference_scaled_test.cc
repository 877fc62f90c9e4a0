// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <keel/float_types.hpp>
#include <limits>

#include "ops/testing/case_builder.h"
#include "ops/testing/reference_fixture.h"

namespace keel::ops {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNaN = std::nanf("");

struct Scaled {
  std::vector<double> y;  // rounded to |to|
  double amax;
};

Scaled cast_scaled(std::vector<float> values, float factor, keel_dtype to) {
  const auto count = static_cast<int64_t>(values.size());
  Host x({count}, std::move(values));
  Host scale({}, std::vector<float>{factor});
  std::vector<uint32_t> memory(static_cast<size_t>(count) + 1);
  const keel_tensor y = kit::make_tensor(memory.data(), to, {count});
  Host amax({}, std::vector<float>(1));
  const ReferenceResult result =
      run(KEEL_OP_CAST_SCALED, {&x.tensor, &scale.tensor}, {&y, &amax.tensor});
  Scaled scaled{{}, result.outputs[1].values[0]};
  for (const double value : result.outputs[0].values) scaled.y.push_back(round_to_dtype(value, to));
  return scaled;
}

TEST(CastScaled, RoundsToNearestEvenAndSaturates) {
  const Scaled small = cast_scaled({1, 1.0625f, 1.1875f, -3.3f, 448, 1000, -kInfinity, 1e-9f}, 1,
                                   KEEL_FLOAT8_E4M3FN);
  EXPECT_EQ(small.y, (std::vector<double>{1, 1, 1.25, -3.25, 448, 448, -448, 0}));
  EXPECT_EQ(small.amax, kInfinity);
  const Scaled wide = cast_scaled({1, 1.125f, 1.375f, 1e6f, -kInfinity}, 1, KEEL_FLOAT8_E5M2);
  EXPECT_EQ(wide.y, (std::vector<double>{1, 1, 1.5, 57344, -57344}));
}

TEST(CastScaled, ScalesBeforeItRounds) {
  const Scaled scaled = cast_scaled({0.001f, -0.002f, 0.0004f}, 0x1p17f, KEEL_FLOAT8_E4M3FN);
  EXPECT_EQ(scaled.y, (std::vector<double>{128, -256, 52}));
  EXPECT_EQ(scaled.amax, static_cast<double>(0.002f));  // of x, not of the scaled values
}

TEST(CastScaled, LargestMagnitude) {
  EXPECT_EQ(cast_scaled({}, 2, KEEL_FLOAT8_E4M3FN).amax, 0);
  EXPECT_EQ(cast_scaled({-5, 3}, 2, KEEL_FLOAT8_E4M3FN).amax, 5);
  for (const std::vector<float>& values :
       {std::vector<float>{kNaN, 1, 2}, {1, kNaN, kInfinity}, {kInfinity, 2, -kNaN}}) {
    const Scaled scaled = cast_scaled(values, 2, KEEL_FLOAT8_E5M2);
    EXPECT_TRUE(std::isnan(scaled.amax));
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(std::isnan(scaled.y[i]), std::isnan(values[i]));
    }
  }
}

// Converts every number of an 8-bit type there and back, scaled by a power of two.
TEST(CastScaled, ThereAndBack) {
  for (const keel_dtype dtype : {KEEL_FLOAT8_E4M3FN, KEEL_FLOAT8_E5M2}) {
    std::vector<uint8_t> codes(256);
    for (size_t i = 0; i < 256; ++i) codes[i] = static_cast<uint8_t>(i);
    const keel_tensor x = kit::make_tensor(codes.data(), dtype, {256});
    Host scale({}, std::vector<float>{0x1p-5f});
    Host y({256}, std::vector<float>(256));
    Host amax({}, std::vector<float>(1));
    const ReferenceResult result =
        run(KEEL_OP_CAST_SCALED, {&x, &scale.tensor}, {&y.tensor, &amax.tensor});
    EXPECT_TRUE(std::isnan(result.outputs[1].values[0]));
    std::vector<float> scaled;
    const std::vector<double> wanted = read_tensor(x);
    for (size_t i = 0; i < 256; ++i) {
      const double value = result.outputs[0].values[i];
      if (std::isfinite(wanted[i])) {
        EXPECT_EQ(value, std::ldexp(wanted[i], -5));
      }
      scaled.push_back(static_cast<float>(value));
    }
    const Scaled back = cast_scaled(scaled, 0x1p5f, dtype);
    for (size_t i = 0; i < 256; ++i) {
      if (std::isfinite(wanted[i])) {
        EXPECT_EQ(back.y[i], wanted[i]) << i;
      }
    }
  }
}

}  // namespace
}  // namespace keel::ops
