// SPDX-License-Identifier: Apache-2.0
#include "collectives/reduce/reduce.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <keel/float_types.hpp>
#include <limits>
#include <vector>

namespace keel {
namespace {

template <typename T>
std::vector<T> reduced(keel_dtype dtype, keel_reduction reduction,
                       const std::vector<std::vector<T>>& sources) {
  std::vector<const void*> inputs;
  for (const auto& source : sources) inputs.push_back(source.data());
  std::vector<T> first(sources[0].size());
  std::vector<T> second(sources[0].size());
  std::vector<void*> outputs = {first.data(), second.data()};
  reduce(dtype, reduction, inputs, outputs, first.size());
  EXPECT_EQ(0, std::memcmp(first.data(), second.data(), first.size() * sizeof(T)));
  return first;
}

TEST(Reduce, EveryReductionOfFloats) {
  const std::vector<std::vector<float>> sources = {{1, -2, 3}, {4, 5, -6}, {-1, 8, 2}};
  using Floats = std::vector<float>;
  EXPECT_EQ(reduced(KEEL_FLOAT32, KEEL_SUM, sources), (Floats{4, 11, -1}));
  EXPECT_EQ(reduced(KEEL_FLOAT32, KEEL_PROD, sources), (Floats{-4, -80, -36}));
  EXPECT_EQ(reduced(KEEL_FLOAT32, KEEL_MIN, sources), (Floats{-1, -2, -6}));
  EXPECT_EQ(reduced(KEEL_FLOAT32, KEEL_MAX, sources), (Floats{4, 8, 3}));
  EXPECT_EQ(reduced(KEEL_FLOAT32, KEEL_AVG, sources), (Floats{4.f / 3, 11.f / 3, -1.f / 3}));
}

TEST(Reduce, IntegersWrap) {
  EXPECT_EQ(reduced<int8_t>(KEEL_INT8, KEEL_SUM, {{127}, {1}}), (std::vector<int8_t>{-128}));
  EXPECT_EQ(reduced<uint16_t>(KEEL_UINT16, KEEL_PROD, {{40000}, {3}}),
            (std::vector<uint16_t>{static_cast<uint16_t>(120000 % 65536)}));
  EXPECT_EQ(reduced<int32_t>(KEEL_INT32, KEEL_SUM, {{INT32_MAX}, {2}}),
            (std::vector<int32_t>{INT32_MIN + 1}));
  EXPECT_EQ(reduced<int64_t>(KEEL_INT64, KEEL_PROD, {{INT64_MAX}, {2}}),
            (std::vector<int64_t>{-2}));
  EXPECT_EQ(reduced<int64_t>(KEEL_INT64, KEEL_AVG, {{-7}, {2}}), (std::vector<int64_t>{-2}));
  EXPECT_EQ(reduced<uint64_t>(KEEL_UINT64, KEEL_MAX, {{UINT64_MAX}, {1}}),
            (std::vector<uint64_t>{UINT64_MAX}));
}

// 2048 + 1 - 2048 in float16 steps would lose the 1: float16 has 11 bits.
TEST(Reduce, SixteenBitTypesAreAccumulatedInFloat32) {
  const std::vector<std::vector<float16_t>> halves = {
      {to_float16(2048)}, {to_float16(1)}, {to_float16(-2048)}};
  EXPECT_EQ(to_float(reduced(KEEL_FLOAT16, KEEL_SUM, halves)[0]), 1.0f);
  const std::vector<std::vector<bfloat16_t>> brains = {
      {to_bfloat16(256)}, {to_bfloat16(1)}, {to_bfloat16(-256)}};
  EXPECT_EQ(to_float(reduced(KEEL_BFLOAT16, KEEL_SUM, brains)[0]), 1.0f);
}

TEST(Reduce, EightBitFloatsSaturateOrOverflow) {
  const std::vector<std::vector<float8_e4m3_t>> small = {{to_float8_e4m3(448)},
                                                         {to_float8_e4m3(448)}};
  EXPECT_EQ(to_float(reduced(KEEL_FLOAT8_E4M3FN, KEEL_SUM, small)[0]), 448.0f);
  const std::vector<std::vector<float8_e5m2_t>> wide = {{to_float8_e5m2(57344)},
                                                        {to_float8_e5m2(57344)}};
  EXPECT_TRUE(std::isinf(to_float(reduced(KEEL_FLOAT8_E5M2, KEEL_SUM, wide)[0])));
}

TEST(Reduce, NanWinsMinAndMaxFromAnyRank) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (keel_reduction reduction : {KEEL_MIN, KEEL_MAX}) {
    EXPECT_TRUE(std::isnan(reduced<float>(KEEL_FLOAT32, reduction, {{nan}, {1}})[0]));
    EXPECT_TRUE(std::isnan(reduced<float>(KEEL_FLOAT32, reduction, {{1}, {nan}})[0]));
    EXPECT_TRUE(std::isnan(reduced<float>(KEEL_FLOAT32, reduction, {{1}, {nan}, {2}})[0]));
  }
}

TEST(Reduce, ADestinationMayBeASource) {
  constexpr size_t kCount = 5000;  // more than two blocks
  std::vector<double> a(kCount, 1.5);
  std::vector<double> b(kCount, 2.0);
  const std::vector<const void*> inputs = {a.data(), b.data()};
  const std::vector<void*> outputs = {b.data(), a.data()};
  reduce(KEEL_FLOAT64, KEEL_SUM, inputs, outputs, kCount);
  EXPECT_EQ(a, std::vector<double>(kCount, 3.5));
  EXPECT_EQ(b, a);
}

TEST(Reduce, APremultipliedSumHasAFactorASource) {
  const std::vector<float> a = {1, 2, -4};
  std::vector<float> b = {10, 20, 40};
  const std::vector<const void*> inputs = {a.data(), b.data()};
  const std::vector<void*> outputs = {b.data()};
  const std::vector<double> factors = {0.5, 2};
  reduce(KEEL_FLOAT32, KEEL_PREMUL_SUM, inputs, outputs, 3, {.factors = factors});
  EXPECT_EQ(b, (std::vector<float>{20.5f, 41, 78}));
}

// 1 + 2^-12 squared is 1 + 2^-11 + 2^-24; float32 rounds to 1 + 2^-11. Fused with the subtraction,
// the last bit would stay.
TEST(Reduce, ProductsAreRoundedBeforeTheyAreAdded) {
  const std::vector<float> minus(1000, -1.0f - 0x1p-11f);
  const std::vector<float> x(1000, 1.0f + 0x1p-12f);
  std::vector<float> result(1000, 7.0f);
  const std::vector<const void*> inputs = {minus.data(), x.data()};
  const std::vector<void*> outputs = {result.data()};
  const std::vector<double> factors = {1, 1 + 0x1p-12};
  reduce(KEEL_FLOAT32, KEEL_PREMUL_SUM, inputs, outputs, result.size(), {.factors = factors});
  EXPECT_EQ(result, std::vector<float>(1000, 0.0f));
}

TEST(Reduce, IntegersAreMultipliedByWholeFactors) {
  const std::vector<int8_t> a = {100, -3};
  const std::vector<int8_t> b = {1, 2};
  std::vector<int8_t> result(2);
  const std::vector<const void*> inputs = {a.data(), b.data()};
  const std::vector<void*> outputs = {result.data()};
  const std::vector<double> factors = {-2, 257};  // 257 is 1 modulo 256
  reduce(KEEL_INT8, KEEL_PREMUL_SUM, inputs, outputs, 2, {.factors = factors});
  EXPECT_EQ(result, (std::vector<int8_t>{-200 + 256 + 1, 6 + 2}));
  EXPECT_TRUE(can_premultiply(KEEL_INT8, -3));
  EXPECT_TRUE(can_premultiply(KEEL_FLOAT16, 0.5));
  EXPECT_TRUE(can_premultiply(KEEL_UINT64, 0x1.fp63));
  EXPECT_TRUE(can_premultiply(KEEL_INT64, -0x1p63));
  EXPECT_FALSE(can_premultiply(KEEL_UINT64, 0.5));
  EXPECT_FALSE(can_premultiply(KEEL_UINT64, 0x1p64));
  EXPECT_FALSE(can_premultiply(KEEL_INT8, -0x1.1p63));
  EXPECT_FALSE(can_premultiply(KEEL_INT32, std::numeric_limits<double>::quiet_NaN()));
}

// 256 ranks are 0 in uint8, 200 are negative in int8.
TEST(Reduce, AveragesOfMoreRanksThanTheTypeCanCount) {
  const std::vector<std::vector<uint8_t>> many(256, {1, 0});
  EXPECT_EQ(reduced(KEEL_UINT8, KEEL_AVG, many), (std::vector<uint8_t>{0, 0}));
  std::vector<std::vector<int8_t>> few(200, {0});
  few[0] = {-100};
  few[1] = {-28};
  EXPECT_EQ(reduced(KEEL_INT8, KEEL_AVG, few), (std::vector<int8_t>{0}));
  few.resize(100);
  EXPECT_EQ(reduced(KEEL_INT8, KEEL_AVG, few), (std::vector<int8_t>{-1}));
}

// For sums already made by some of the ranks.
TEST(Reduce, AnAverageMayHaveADivisorOfItsOwn) {
  const float partial[] = {7, -9};
  const float own[] = {5, 1};
  const std::vector<const void*> sources = {partial, own};
  float result[2] = {};
  void* const destinations[] = {result};
  reduce(KEEL_FLOAT32, KEEL_AVG, sources, destinations, 2, {.divisor = 3});
  EXPECT_EQ(result[0], 4.f);
  EXPECT_EQ(result[1], -8.f / 3);
}

TEST(Reduce, ANanOfTheResultHasNoSignAndNoPayload) {
  const auto nan = [](uint32_t bits) { return std::bit_cast<float>(bits); };
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> sums = reduced<float>(
      KEEL_FLOAT32, KEEL_SUM,
      {{nan(0xffc00001), nan(0x7f800001), infinity, 1}, {nan(0x7fc00002), 1, -infinity, 2}});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(std::bit_cast<uint32_t>(sums[i]), 0x7fc00000u) << i;
  EXPECT_EQ(sums[3], 3.0f);
}

TEST(CopyBytes, CopiesAnyBytesBothWays) {
  std::vector<uint8_t> source(100'000);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<uint8_t>(i * 31 >> 3);
  for (Store store : {Store::kCached, Store::kStreaming}) {
    for (size_t bytes : {0, 1, 63, 64, 1000, 4096, 99'001}) {
      for (size_t offset : {0, 1, 13, 32}) {
        std::vector<uint8_t> destination(source.size() + 64, 0xee);
        copy_bytes(destination.data() + offset, source.data() + 3, bytes, store);
        std::vector<uint8_t> wanted(destination.size(), 0xee);
        for (size_t i = 0; i < bytes; ++i) wanted[offset + i] = source[3 + i];
        ASSERT_EQ(destination, wanted) << bytes << " bytes to " << offset;
      }
    }
  }
}

TEST(Reduce, OffersEveryDtypeAndReduction) {
  for (keel_dtype dtype = 1; dtype < KEEL_DTYPE_COUNT; ++dtype) {
    EXPECT_TRUE(can_reduce(dtype, KEEL_AVG));
    EXPECT_TRUE(can_reduce(dtype, KEEL_PREMUL_SUM));
  }
  EXPECT_FALSE(can_reduce(KEEL_DTYPE_INVALID, KEEL_SUM));
  EXPECT_FALSE(can_reduce(KEEL_DTYPE_COUNT, KEEL_SUM));
  EXPECT_FALSE(can_reduce(KEEL_INT8, KEEL_REDUCTION_COUNT));
  EXPECT_TRUE(can_reduce(KEEL_UINT64, KEEL_BXOR));
  EXPECT_FALSE(can_reduce(KEEL_FLOAT16, KEEL_BAND));
  EXPECT_FALSE(can_reduce(KEEL_BOOL, KEEL_BOR)) << "lowered to uint8 before";
}

// Enough words for whole vectors of each instruction set, and a rest.
TEST(Reduce, BitsOfIntegersAreCombined) {
  constexpr size_t kCount = 1003;
  std::vector<std::vector<int32_t>> sources(3, std::vector<int32_t>(kCount));
  std::vector<int32_t> all(kCount), any(kCount), odd(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    for (size_t rank = 0; rank < 3; ++rank) {
      sources[rank][i] = static_cast<int32_t>((i + 1) * (0x9e3779b9u + 2 * rank));
    }
    all[i] = sources[0][i] & sources[1][i] & sources[2][i];
    any[i] = sources[0][i] | sources[1][i] | sources[2][i];
    odd[i] = sources[0][i] ^ sources[1][i] ^ sources[2][i];
  }
  EXPECT_EQ(reduced(KEEL_INT32, KEEL_BAND, sources), all);
  EXPECT_EQ(reduced(KEEL_INT32, KEEL_BOR, sources), any);
  EXPECT_EQ(reduced(KEEL_INT32, KEEL_BXOR, sources), odd);
}

}  // namespace
}  // namespace keel
