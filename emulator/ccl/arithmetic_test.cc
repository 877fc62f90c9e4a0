// SPDX-License-Identifier: Apache-2.0
#include "emulator/ccl/arithmetic.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <keel/float_types.hpp>
#include <limits>
#include <vector>

namespace keel::emulator::ccl {
namespace {

template <typename Stored>
Stored reduced(Type type, Reduction reduction, const std::vector<Stored>& values,
               const std::vector<double>& factors = {}) {
  std::vector<const std::byte*> sources;
  for (const Stored& value : values) sources.push_back(reinterpret_cast<const std::byte*>(&value));
  Stored result;
  reduce(type, reduction, sources, factors, 1, reinterpret_cast<std::byte*>(&result));
  return result;
}

TEST(CclArithmetic, IntegersWrap) {
  EXPECT_EQ(reduced<int8_t>(Type::kInt8, Reduction::kSum, {100, 100}), -56);
  EXPECT_EQ(reduced<uint16_t>(Type::kUint16, Reduction::kProduct, {0xffff, 0xffff}), 1);
  EXPECT_EQ(
      reduced<int64_t>(Type::kInt64, Reduction::kSum, {std::numeric_limits<int64_t>::max(), 1}),
      std::numeric_limits<int64_t>::min());
  EXPECT_EQ(reduced<int32_t>(Type::kInt32, Reduction::kAverage, {-3, -4}), -3);  // truncates
  EXPECT_EQ(reduced<uint8_t>(Type::kUint8, Reduction::kMin, {200, 3, 7}), 3);
  EXPECT_EQ(reduced<int8_t>(Type::kInt8, Reduction::kMax, {-5, -3, -7}), -3);
  EXPECT_EQ(reduced<int32_t>(Type::kInt32, Reduction::kScaledSum, {2, 3}, {-1, 5}), 13);
}

TEST(CclArithmetic, SmallFloatsAreRoundedOnce) {
  // 2048 + 1 + 1: float16 would round each partial sum down.
  EXPECT_EQ(to_float(reduced<float16_t>(Type::kFloat16, Reduction::kSum,
                                        {to_float16(2048), to_float16(1), to_float16(1)})),
            2050.0F);
  EXPECT_EQ(to_float(reduced<float8_e4m3_t>(Type::kFloat8E4m3, Reduction::kSum,
                                            {to_float8_e4m3(448), to_float8_e4m3(448)})),
            448.0F);
  EXPECT_EQ(to_float(reduced<bfloat16_t>(Type::kBfloat16, Reduction::kAverage,
                                         {to_bfloat16(1), to_bfloat16(2)})),
            1.5F);
}

TEST(CclArithmetic, NotANumberWins) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(reduced<float>(Type::kFloat32, Reduction::kMin, {1, nan, -1})));
  EXPECT_TRUE(std::isnan(reduced<float>(Type::kFloat32, Reduction::kMax, {nan, 1})));
  EXPECT_EQ(reduced<double>(Type::kFloat64, Reduction::kProduct, {1.5, 3}), 4.5);
  EXPECT_EQ(reduced<float>(Type::kFloat32, Reduction::kScaledSum, {1, 2}, {0.5, 2}), 4.5F);
}

}  // namespace
}  // namespace keel::emulator::ccl
