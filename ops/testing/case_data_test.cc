// SPDX-License-Identifier: Apache-2.0
#include "ops/testing/case_data.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <keel/plugin_kit.hpp>
#include <limits>
#include <set>
#include <utility>

#include "ops/testing/case_builder.h"
#include "ops/testing/reference.h"

namespace keel::ops {
namespace {

// Returns the values of a single tensor with |distribution|.
std::vector<double> draw(Distribution distribution, keel_dtype dtype = KEEL_FLOAT32,
                         int64_t count = 4096, int64_t bound = 0, uint64_t seed = 7) {
  Case one = make_case(KEEL_OP_GELU, 0, "test", {dense(dtype, {count}, distribution, bound)},
                       {dense(dtype, {count}, Distribution::kNaN)});
  CaseData data(one, seed);
  return read_tensor(*data.call().inputs[0]);
}

TEST(RandomBits, ArePhilox4x32) {
  // Random123's known answers for 10 rounds: counter and key all zeroes, and all ones.
  EXPECT_EQ(random_bits(0, 0, 0, 0), 0xe169c58d6627e8d5u);
  constexpr uint64_t kOnes = std::numeric_limits<uint64_t>::max();
  EXPECT_EQ(random_bits(kOnes, kOnes, 0xff, kOnes >> 8), 0x41c83b0e408f276du);
}

TEST(RandomBits, DependOnEveryPartOfThePlace) {
  std::set<uint64_t> seen;
  seen.insert(random_bits(1, 2, 3, 4));
  seen.insert(random_bits(9, 2, 3, 4));
  seen.insert(random_bits(uint64_t{1} << 40, 2, 3, 4));
  seen.insert(random_bits(1, 9, 3, 4));
  seen.insert(random_bits(1, uint64_t{2} << 40, 3, 4));
  seen.insert(random_bits(1, 2, 9, 4));
  seen.insert(random_bits(1, 2, 3, 9));
  seen.insert(random_bits(1, 2, 3, uint64_t{4} << 32));
  EXPECT_EQ(seen.size(), 8u);
  EXPECT_EQ(random_bits(1, 2, 3, 4), random_bits(1, 2, 3, 4));
}

TEST(Distributions, HaveTheirMoments) {
  double sum = 0;
  double square = 0;
  for (double value : draw(Distribution::kNormal)) {
    sum += value;
    square += value * value;
  }
  EXPECT_NEAR(sum / 4096, 0, 0.06);  // four standard deviations of the mean
  EXPECT_NEAR(square / 4096, 1, 0.09);
  for (double value : draw(Distribution::kPositive)) {
    EXPECT_GE(value, 0.01f);
    EXPECT_LE(value, 1);
  }
  for (double value : draw(Distribution::kFar)) EXPECT_NEAR(value, 50, 6);
  for (double value : draw(Distribution::kWide)) {
    EXPECT_GE(std::abs(value), 0x1p-20);
    EXPECT_LE(std::abs(value), 0x1p20);
  }
}

TEST(Distributions, IndicesStayInsideUnlessAsked) {
  std::set<double> seen;
  for (double value : draw(Distribution::kIndices, KEEL_INT32, 4096, 5)) seen.insert(value);
  EXPECT_EQ(seen, (std::set<double>{0, 1, 2, 3, 4}));
  seen.clear();
  for (double value : draw(Distribution::kIndicesSomeOutside, KEEL_INT32, 4096, 3)) {
    seen.insert(value);
  }
  EXPECT_EQ(seen, (std::set<double>{-0x1p31, -1, 0, 1, 2, 3, 0x1p31 - 1}));
}

TEST(Distributions, SpecialHoldsEveryKind) {
  for (keel_dtype dtype : {KEEL_FLOAT32, KEEL_FLOAT16, KEEL_BFLOAT16}) {
    SCOPED_TRACE(kit::dtype_name(dtype));
    bool nan = false;
    std::set<double> seen;
    for (double value : draw(Distribution::kSpecial, dtype)) {
      nan |= std::isnan(value);
      if (!std::isnan(value)) seen.insert(value);
    }
    EXPECT_TRUE(nan);
    EXPECT_TRUE(seen.contains(std::numeric_limits<double>::infinity()));
    EXPECT_TRUE(seen.contains(-std::numeric_limits<double>::infinity()));
    const double largest = dtype == KEEL_FLOAT32   ? 0x1.fffffep127
                           : dtype == KEEL_FLOAT16 ? 65504
                                                   : 0x1.fep127;
    EXPECT_TRUE(seen.contains(largest));
    const double smallest = dtype == KEEL_FLOAT32   ? 0x1p-149
                            : dtype == KEEL_FLOAT16 ? 0x1p-24
                                                    : 0x1p-133;
    EXPECT_TRUE(seen.contains(smallest));
  }
}

TEST(Distributions, RowsLieAroundLargeOffsetsInUnitsOfTheirLastPlace) {
  constexpr int64_t kColumns = 64;
  for (keel_dtype dtype : {KEEL_FLOAT32, KEEL_FLOAT16, KEEL_BFLOAT16}) {
    SCOPED_TRACE(kit::dtype_name(dtype));
    const std::vector<double> values = draw(Distribution::kOffset, dtype, 4096, kColumns);
    // The values of each row, and the rows' numbers alone.
    const std::vector<double> numbers = draw(Distribution::kOffset, dtype, 64, 1);
    for (size_t row = 0; row < 64; ++row) {
      SCOPED_TRACE(row);
      const std::set<double> seen(values.begin() + static_cast<ptrdiff_t>(row * kColumns),
                                  values.begin() + static_cast<ptrdiff_t>((row + 1) * kColumns));
      const double least = *seen.begin();
      const double unit = std::exp2(std::ilogb(least) - (dtype == KEEL_FLOAT32   ? 23
                                                         : dtype == KEEL_FLOAT16 ? 10
                                                                                 : 7));
      EXPECT_GE(std::abs(least), 100);
      EXPECT_EQ(seen.size(), row % 3 == 0 ? 1u : 4u);
      EXPECT_LE(*seen.rbegin() - least, 3 * unit);
      EXPECT_LE(std::abs(numbers[row] - least), 3 * unit);
    }
  }
}

TEST(Distributions, RowsHaveSquaresBeyondFloat32) {
  size_t beyond = 0;
  for (double value : draw(Distribution::kHuge, KEEL_FLOAT32, 4096, 64)) {
    EXPECT_TRUE(std::isfinite(value));
    beyond += value * value > 0x1p128 ? 1 : 0;
  }
  for (double value : draw(Distribution::kTiny, KEEL_FLOAT32, 4096, 64)) {
    beyond += value != 0 && value * value < 0x1p-126 ? 1 : 0;
  }
  EXPECT_GT(beyond, 4096u);  // out of twice as many
}

TEST(Distributions, OnlyGatesAreExtreme) {
  constexpr size_t kWidth = 32;
  const std::vector<double> values = draw(Distribution::kExtremeGates, KEEL_FLOAT32, 4096, kWidth);
  size_t infinite = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (i % kWidth >= kWidth / 2) {
      EXPECT_LT(std::abs(values[i]), 10);
    }
    infinite += std::isinf(values[i]) ? 1 : 0;
  }
  EXPECT_GT(infinite, 50u);
}

TEST(Distributions, ZeroesAreOfBothSigns) {
  int negative = 0;
  const std::vector<double> drawn = draw(Distribution::kZeroes);
  for (double value : drawn) {
    EXPECT_EQ(value, 0);
    negative += std::signbit(value) ? 1 : 0;
  }
  EXPECT_GT(negative, 0);
  EXPECT_LT(negative, static_cast<int>(drawn.size()));
}

TEST(Distributions, TiesAreHalfwayBetween16BitNeighbours) {
  int halfway = 0;
  for (double value : draw(Distribution::kTies)) {
    for (keel_dtype dtype : {KEEL_FLOAT16, KEEL_BFLOAT16}) {
      const double nearest = round_to_dtype(value, dtype);
      const double other = 2 * value - nearest;  // same distance on the other side
      if (nearest != value && round_to_dtype(other, dtype) == other) ++halfway;
    }
  }
  EXPECT_GT(halfway, 1000);
}

TEST(Distributions, OneElementStandsAloneInARow) {
  CaseTensor x = dense(KEEL_FLOAT32, {5, 7}, Distribution::kLone, /*bound=*/7);
  x.lone = 12345;
  x.places = {0, 6, -1};
  CaseData data(make_case(KEEL_OP_GELU, 0, "test", {x}, {dense(KEEL_FLOAT32, {5, 7})}), 1);
  const std::vector<double> values = read_tensor(*data.call().inputs[0]);
  std::vector<size_t> alone;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] == 12345) alone.push_back(i);
  }
  EXPECT_EQ(alone, (std::vector<size_t>{0, 7 + 6, 3 * 7, 4 * 7 + 6}));
}

TEST(Distributions, EdgesAreOnBothSidesOfEachRounding) {
  const std::pair<keel_dtype, double> largest[] = {
      {KEEL_FLOAT16, 65504}, {KEEL_FLOAT8_E4M3FN, 448}, {KEEL_FLOAT8_E5M2, 57344}};
  for (const auto& [dtype, largest_number] : largest) {
    SCOPED_TRACE(kit::dtype_name(dtype));
    int ties = 0;
    int beyond = 0;
    int vanish = 0;
    for (double value : draw(Distribution::kEdges, KEEL_FLOAT32, 8192)) {
      const double nearest = round_to_dtype(value, dtype);
      const double other = 2 * value - nearest;  // same distance on the other side
      ties += nearest != value && round_to_dtype(other, dtype) == other ? 1 : 0;
      beyond += std::abs(value) > largest_number ? 1 : 0;
      vanish += nearest == 0 ? 1 : 0;
    }
    EXPECT_GT(ties, 500);
    EXPECT_GT(beyond, 20);
    EXPECT_GT(vanish, 20);
  }
}

TEST(Distributions, EveryValueOfATypeOccurs) {
  const std::vector<double> values = draw(Distribution::kEveryValue, KEEL_FLOAT8_E4M3FN, 256);
  const std::set<double> seen(values.begin(), values.end());
  EXPECT_TRUE(seen.contains(448));
  EXPECT_TRUE(seen.contains(-0x1p-9));
  EXPECT_EQ(draw(Distribution::kEveryValue, KEEL_FLOAT16, 65536)[0x3c00], 1);
}

TEST(Distributions, IndicesBeginAtTheirBase) {
  CaseTensor x = dense(KEEL_INT32, {64}, Distribution::kIndices, /*bound=*/3);
  x.base = -1;
  CaseData data(make_case(KEEL_OP_GELU, 0, "test", {x}, {dense(KEEL_FLOAT32, {64})}), 1);
  const std::vector<double> values = read_tensor(*data.call().inputs[0]);
  EXPECT_EQ(std::set<double>(values.begin(), values.end()), (std::set<double>{-1, 0, 1}));
}

TEST(CaseData, OutputInPlaceIsTheInput) {
  CaseTensor x = dense(KEEL_FLOAT32, {5});
  CaseData data(in_place(make_case(KEEL_OP_GELU, 0, "test", {x}, {x}), 0, 0), 1);
  EXPECT_EQ(data.call().inputs[0]->data, data.call().outputs[0]->data);
  EXPECT_EQ(data.input(0).data(), data.output(0).data());
}

TEST(CaseData, GapsAreMarkedAndUnreadContentIsNaN) {
  CaseTensor x = shifted(padded(dense(KEEL_FLOAT32, {2, 3}), 1), 2);
  CaseTensor y = dense(KEEL_FLOAT32, {2, 3}, Distribution::kNaN);
  CaseData data(make_case(KEEL_OP_GELU, 0, "test", {x}, {y}), 1);
  ASSERT_EQ(data.input(0).size(), (2 + 4 + 3) * sizeof(float));
  for (size_t element : {0, 1, 5}) {
    for (size_t byte = 0; byte < 4; ++byte) {
      EXPECT_EQ(data.input(0)[element * 4 + byte], std::byte{0xa5});
    }
  }
  for (double value : read_tensor(*data.call().inputs[0])) EXPECT_TRUE(std::isfinite(value));
  for (double value : read_tensor(*data.call().outputs[0])) EXPECT_TRUE(std::isnan(value));
}

TEST(CaseData, LayoutDoesNotChangeTheValues) {
  CaseTensor x = dense(KEEL_FLOAT32, {4, 6});
  CaseTensor y = dense(KEEL_FLOAT32, {4, 6}, Distribution::kNaN);
  CaseData plain(make_case(KEEL_OP_GELU, 0, "test", {x}, {y}), 1);
  CaseData moved(make_case(KEEL_OP_GELU, 0, "test", {transposed(x)}, {y}), 1);
  EXPECT_EQ(read_tensor(*plain.call().inputs[0]), read_tensor(*moved.call().inputs[0]));
}

TEST(CaseData, RebindKeepsAllButTheMemory) {
  CaseTensor x = shifted(dense(KEEL_FLOAT32, {5}), 3);
  CaseTensor y = dense(KEEL_FLOAT32, {5}, Distribution::kNaN);
  CaseData data(make_case(KEEL_OP_GELU, 0, "test", {x}, {y}), 1);
  float other[16];
  void* input = other;
  void* output = other + 8;
  CaseData::Storage storage;
  const keel_op_call call = data.rebind({&input, 1}, {&output, 1}, &storage);
  EXPECT_EQ(call.inputs[0]->data, input);
  EXPECT_EQ(call.inputs[0]->byte_offset, 12u);
  EXPECT_EQ(call.outputs[0]->data, output);
  EXPECT_EQ(call.op, data.call().op);
}

}  // namespace
}  // namespace keel::ops
