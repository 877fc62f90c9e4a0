// SPDX-License-Identifier: Apache-2.0
// elementwise, reduce, gather and scatter through the CPU plugin: what the conformance cases leave
// out, as larger tensors, results that must not depend on the number of cores, and indices outside.
#include "backends/cpu/kernels/families.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <functional>
#include <limits>

#include "backends/cpu/testing/ops_fixture.h"

namespace keel::cpu::testing {
namespace {

// Beside its conversions, two for each dtype, a family has kernels. Functions, dtypes, strides and
// axes are values: a new one needs no kernel.
TEST(CpuKernels, ElementwiseAndReduceHaveAtMostTwelve) {
  using Family = kernels::Family<float>;
  constexpr size_t kConversions = sizeof(Family::load) + sizeof(Family::store);
  constexpr size_t kKernels = (sizeof(Family) - kConversions) / sizeof(Family::apply);
  EXPECT_GE(kernels::kFamilies * kKernels, 2u);
  EXPECT_LE(kernels::kFamilies * kKernels, 12u);
}

class CpuFamilies : public CpuOps {
 protected:
  static std::vector<keel_attribute> function(int64_t number, double alpha = 1, double a = 0,
                                              double b = 0, double c = 0, int64_t seed = 0,
                                              int64_t offset = 0) {
    return {integer(number), real(alpha),   real(a),        real(b),
            real(c),         integer(seed), integer(offset)};
  }
};

INSTANTIATE_TEST_SUITE_P(Cores, CpuFamilies, ::testing::Values("1", "2"),
                         [](const auto& info) { return std::string("cores") + info.param; });

// |from| as [rows, columns] with the given strides, in elements.
keel_tensor matrix(const DeviceTensor& from, int64_t rows, int64_t columns, int64_t row_step,
                   int64_t column_step) {
  keel_tensor view = *static_cast<const keel_tensor*>(from);
  view.rank = 2;
  view.shape[0] = rows;
  view.shape[1] = columns;
  view.strides[0] = row_step;
  view.strides[1] = column_step;
  return view;
}

TEST_P(CpuFamilies, ElementwiseReadsAnyLayout) {
  constexpr int64_t kRows = 517;
  constexpr int64_t kColumns = 383;
  constexpr auto kCount = static_cast<size_t>(kRows * kColumns);
  const std::vector<float> values_of_a = random_values(kCount, 1);
  const std::vector<float> values_of_b = random_values(kCount * 2, 2);
  const DeviceTensor a = floats({kRows * kColumns}, values_of_a);
  const DeviceTensor b = floats({kRows * kColumns * 2}, values_of_b);
  const DeviceTensor y = floats({kRows * kColumns}, std::vector<float>(kCount));
  const keel_tensor out = matrix(y, kRows, kColumns, kColumns, 1);
  struct Layout {
    int64_t row;
    int64_t column;
  };
  const Layout layouts[] = {{kColumns, 1}, {1, kRows}, {2 * kColumns, 2}, {0, 1}, {1, 0}, {0, 0}};
  for (const Layout& of_a : {layouts[0], layouts[1]}) {
    for (const Layout& of_b : layouts) {
      const keel_tensor in_a = matrix(a, kRows, kColumns, of_a.row, of_a.column);
      const keel_tensor in_b = matrix(b, kRows, kColumns, of_b.row, of_b.column);
      run(KEEL_OP_ELEMENTWISE, {&in_a, &in_b, nullptr}, {&out},
          function(KEEL_ELEMENTWISE_FUNCTION_ADD, 0.5));
      const std::vector<float> got = values(y);
      for (int64_t i = 0; i < kRows; ++i) {
        for (int64_t j = 0; j < kColumns; ++j) {
          const float want =
              values_of_a[static_cast<size_t>(i * of_a.row + j * of_a.column)] +
              0.5f * values_of_b[static_cast<size_t>(i * of_b.row + j * of_b.column)];
          ASSERT_EQ(got[static_cast<size_t>(i * kColumns + j)], want) << i << ", " << j;
        }
      }
    }
  }
}

TEST_P(CpuFamilies, ElementwiseWritesStridedOutputs) {
  constexpr int64_t kRows = 300;
  constexpr int64_t kColumns = 70;
  constexpr auto kCount = static_cast<size_t>(kRows * kColumns);
  std::vector<int64_t> numbers(kCount);
  for (size_t i = 0; i < kCount; ++i) numbers[i] = static_cast<int64_t>(i) - 1000;
  const DeviceTensor x = tensor<int64_t>(KEEL_INT64, {kRows, kColumns}, numbers);
  const DeviceTensor y =
      tensor<int16_t>(KEEL_INT16, {kRows * kColumns * 3}, std::vector<int16_t>(kCount * 3, 7));
  // Transposed, with two elements between those of a column.
  const keel_tensor out = matrix(y, kRows, kColumns, 3, 3 * kRows);
  run(KEEL_OP_ELEMENTWISE, {x, nullptr, nullptr}, {&out},
      function(KEEL_ELEMENTWISE_FUNCTION_MUL, 1, 0, 5));
  const std::vector<int16_t> got = values<int16_t>(y);
  for (size_t i = 0; i < got.size(); ++i) {
    const size_t row = i / 3 % kRows;
    const size_t column = i / 3 / kRows;
    const int64_t want = i % 3 != 0 ? 7 : 5 * numbers[row * kColumns + column];
    ASSERT_EQ(got[i], static_cast<int16_t>(want)) << i;
  }
}

// Larger than the caches: stores go past them, also where y begins off a line.
TEST_P(CpuFamilies, ElementwiseOfLargeTensors) {
  constexpr int64_t kCount = (int64_t{9} << 20) + 3;
  const DeviceTensor y = floats({kCount + 1}, std::vector<float>(size_t{kCount} + 1, -1.0f));
  for (const uint64_t shift : {0, 4}) {
    keel_tensor to = *static_cast<const keel_tensor*>(y);
    to.shape[0] = kCount;
    to.byte_offset = shift;
    run(KEEL_OP_ELEMENTWISE, {nullptr, nullptr, nullptr}, {&to},
        function(KEEL_ELEMENTWISE_FUNCTION_ARANGE, 1, static_cast<double>(shift), 1));
    const std::vector<float> got = values(y);
    size_t wrong = 0;
    const float* const first = got.data() + shift / 4;
    for (size_t i = 0; i < size_t{kCount}; ++i) wrong += first[i] != static_cast<float>(i + shift);
    EXPECT_EQ(wrong, 0u);
    EXPECT_EQ(got[shift == 0 ? size_t{kCount} : 0], shift == 0 ? -1.0f : 0.0f);
  }
}

TEST_P(CpuFamilies, IntegerDivisionsDoNotTrap) {
  constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
  const DeviceTensor a = tensor<int64_t>(KEEL_INT64, {4}, {kLowest, 5, kLowest, -7});
  const DeviceTensor b = tensor<int64_t>(KEEL_INT64, {4}, {-1, 0, 0, 2});
  const DeviceTensor y(device(), KEEL_INT64, {4});
  const auto last = [&](int64_t number) {
    run(KEEL_OP_ELEMENTWISE, {a, b, nullptr}, {y}, function(number));
    return values<int64_t>(y)[3];
  };
  EXPECT_EQ(last(KEEL_ELEMENTWISE_FUNCTION_DIV), -3);
  EXPECT_EQ(last(KEEL_ELEMENTWISE_FUNCTION_FLOOR_DIV), -4);
  EXPECT_EQ(last(KEEL_ELEMENTWISE_FUNCTION_REMAINDER), 1);
  EXPECT_EQ(last(KEEL_ELEMENTWISE_FUNCTION_FMOD), -1);
}

// The numbers of an element depend on its place alone.
TEST_P(CpuFamilies, RandomNumbersAreThoseOfTheElement) {
  constexpr int64_t kRows = 411;
  constexpr int64_t kColumns = 237;
  constexpr auto kCount = static_cast<size_t>(kRows * kColumns);
  for (const int64_t number :
       {KEEL_ELEMENTWISE_FUNCTION_UNIFORM, KEEL_ELEMENTWISE_FUNCTION_NORMAL}) {
    const DeviceTensor dense(device(), KEEL_FLOAT32, {kRows * kColumns});
    const DeviceTensor turned(device(), KEEL_FLOAT32, {kRows * kColumns});
    const keel_tensor out = matrix(turned, kRows, kColumns, 1, kRows);
    run(KEEL_OP_ELEMENTWISE, {nullptr, nullptr, nullptr}, {dense}, function(number, 1, 0, 1, 0, 5));
    run(KEEL_OP_ELEMENTWISE, {nullptr, nullptr, nullptr}, {&out}, function(number, 1, 0, 1, 0, 5));
    const std::vector<float> of_dense = values(dense);
    const std::vector<float> of_turned = values(turned);
    double sum = 0;
    for (size_t i = 0; i < kCount; ++i) {
      const size_t row = i / kColumns;
      const size_t column = i % kColumns;
      ASSERT_EQ(of_turned[column * kRows + row], of_dense[i]) << i;
      sum += static_cast<double>(of_dense[i]);
    }
    const double mean = number == KEEL_ELEMENTWISE_FUNCTION_UNIFORM ? 0.5 : 0;
    EXPECT_NEAR(sum / static_cast<double>(kCount), mean, 0.02);
  }
}

// ---- reduce -------------------------------------------------------------------------

// Every way in which the axes of [a, b, c] can be reduced, on a tensor in both orders.
TEST_P(CpuFamilies, ReduceSumsAnyAxes) {
  constexpr int64_t kExtent[] = {23, 130, 65};
  constexpr size_t kCount = size_t{23} * 130 * 65;
  const std::vector<float> numbers = random_values(kCount, 4);
  const DeviceTensor x = floats({static_cast<int64_t>(kCount)}, numbers);
  for (const bool is_turned : {false, true}) {
    keel_tensor in = *static_cast<const keel_tensor*>(x);
    in.rank = 3;
    int64_t step = 1;
    for (uint32_t k = 0; k < 3; ++k) {
      const uint32_t axis = is_turned ? k : 2 - k;
      in.shape[axis] = kExtent[axis];
      in.strides[axis] = step;
      step *= kExtent[axis];
    }
    for (uint32_t mask = 0; mask < 8; ++mask) {
      const auto left = [&](uint32_t axis) { return (mask >> axis & 1) != 0 ? 1 : kExtent[axis]; };
      const DeviceTensor y(device(), KEEL_FLOAT32, {left(0), left(1), left(2)});
      std::vector<double> want(y.count());
      for (int64_t i = 0; i < kExtent[0]; ++i) {
        for (int64_t j = 0; j < kExtent[1]; ++j) {
          for (int64_t k = 0; k < kExtent[2]; ++k) {
            const int64_t from = i * in.strides[0] + j * in.strides[1] + k * in.strides[2];
            const int64_t to = (i % left(0) * left(1) + j % left(1)) * left(2) + k % left(2);
            want[static_cast<size_t>(to)] +=
                static_cast<double>(numbers[static_cast<size_t>(from)]);
          }
        }
      }
      run(KEEL_OP_REDUCE, {&in}, {y}, {integer(KEEL_REDUCE_FUNCTION_SUM)});
      SCOPED_TRACE(std::to_string(mask) + (is_turned ? " turned" : ""));
      expect_near(
          values(y), [&](size_t i) { return want[i]; }, 1e-6, 1e-3);
    }
  }
}

TEST(CpuFamiliesTest, ReduceDoesNotDependOnCores) {
  const std::vector<float> numbers = random_values(size_t{3} << 19, 6);
  std::vector<std::vector<float>> results;
  for (const char* cores : {"1", "2"}) {
    OpRunner runner(cores);
    const DeviceTensor x = runner.floats({3 << 10, 1 << 9}, numbers);
    const DeviceTensor all(runner.device(), KEEL_FLOAT32, {1, 1});
    const DeviceTensor columns(runner.device(), KEEL_FLOAT32, {1, 1 << 9});
    const DeviceTensor rows(runner.device(), KEEL_FLOAT32, {3 << 10, 1});
    for (const int64_t number :
         {KEEL_REDUCE_FUNCTION_SUM, KEEL_REDUCE_FUNCTION_NORM, KEEL_REDUCE_FUNCTION_LOG_SUM_EXP}) {
      for (const DeviceTensor* y : {&all, &columns, &rows}) {
        runner.run(KEEL_OP_REDUCE, {x}, {*y}, {integer(number)});
        results.push_back(runner.values(*y));
      }
    }
  }
  for (size_t i = 0; i < results.size() / 2; ++i) {
    EXPECT_EQ(results[i], results[i + results.size() / 2]) << i;
  }
}

// Along rows, along columns, and in chunks of a large tensor.
TEST_P(CpuFamilies, ReduceFindsTheFirstOfEqualsAndNaN) {
  constexpr int64_t kCount = int64_t{1} << 18;
  std::vector<float> numbers = random_values(size_t{kCount}, 7);
  numbers[100] = numbers[200000] = 90;
  numbers[150001] = numbers[150000] = -90;
  const DeviceTensor place(device(), KEEL_INT64, {1});
  const DeviceTensor extreme(device(), KEEL_FLOAT32, {1});
  const auto found = [&](int64_t number) {
    run(KEEL_OP_REDUCE, {floats({kCount}, numbers)}, {place}, {integer(number)});
    return values<int64_t>(place)[0];
  };
  EXPECT_EQ(found(KEEL_REDUCE_FUNCTION_ARGMAX), 100);
  EXPECT_EQ(found(KEEL_REDUCE_FUNCTION_ARGMIN), 150000);
  numbers[170000] = numbers[180000] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(found(KEEL_REDUCE_FUNCTION_ARGMAX), 170000);
  EXPECT_EQ(found(KEEL_REDUCE_FUNCTION_ARGMIN), 170000);
  for (const int64_t number : {KEEL_REDUCE_FUNCTION_MAX, KEEL_REDUCE_FUNCTION_MIN,
                               KEEL_REDUCE_FUNCTION_SUM, KEEL_REDUCE_FUNCTION_LOG_SUM_EXP}) {
    run(KEEL_OP_REDUCE, {floats({kCount}, numbers)}, {extreme}, {integer(number)});
    EXPECT_TRUE(std::isnan(values(extreme)[0])) << number;
  }
}

TEST_P(CpuFamilies, ReduceArgmaxOfColumns) {
  constexpr int64_t kRows = 2000;
  constexpr int64_t kColumns = 150;
  std::vector<int32_t> numbers(size_t{kRows * kColumns});
  std::mt19937 generator(8);
  for (int32_t& number : numbers) number = static_cast<int32_t>(generator() % 1000);
  const DeviceTensor x = tensor<int32_t>(KEEL_INT32, {kRows, kColumns}, numbers);
  const DeviceTensor y(device(), KEEL_INT64, {1, kColumns});
  run(KEEL_OP_REDUCE, {x}, {y}, {integer(KEEL_REDUCE_FUNCTION_ARGMAX)});
  const std::vector<int64_t> got = values<int64_t>(y);
  for (size_t j = 0; j < size_t{kColumns}; ++j) {
    size_t best = 0;
    for (size_t i = 1; i < size_t{kRows}; ++i) {
      if (numbers[i * kColumns + j] > numbers[best * kColumns + j]) best = i;
    }
    ASSERT_EQ(got[j], static_cast<int64_t>(best)) << j;
  }
}

TEST_P(CpuFamilies, ReduceOfInfinities) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const DeviceTensor y(device(), KEEL_FLOAT32, {1});
  const auto sum = [&](const std::vector<float>& numbers) {
    const DeviceTensor x = floats({static_cast<int64_t>(numbers.size())}, numbers);
    run(KEEL_OP_REDUCE, {x}, {y}, {integer(KEEL_REDUCE_FUNCTION_LOG_SUM_EXP)});
    return values(y)[0];
  };
  EXPECT_EQ(sum({-kInfinity, -kInfinity}), -kInfinity);
  EXPECT_EQ(sum({1, kInfinity, kInfinity}), kInfinity);
  EXPECT_EQ(sum({-kInfinity, 3}), 3);
  EXPECT_NEAR(sum({1000, 1000}), 1000.6931f, 1e-3);
}

// ---- gather and scatter --------------------------------------------------------------

TEST_P(CpuFamilies, GatherOfIndicesOutsideIsZero) {
  const DeviceTensor x = floats({3, 2}, {1, 2, 3, 4, 5, 6});
  const DeviceTensor y = floats({4, 2}, std::vector<float>(8, 9));
  const DeviceTensor index =
      tensor<int64_t>(KEEL_INT64, {4}, {2, -1, std::numeric_limits<int64_t>::max(), 0});
  const keel_tensor of_rows = matrix(index, 4, 2, 1, 0);
  run(KEEL_OP_GATHER, {x, &of_rows}, {y}, {integer(0)});
  EXPECT_EQ(values(y), (std::vector<float>{5, 6, 0, 0, 0, 0, 1, 2}));
}

TEST_P(CpuFamilies, GatherAlongAnyAxis) {
  constexpr int64_t kRows = 203;
  constexpr int64_t kColumns = 121;
  constexpr int64_t kTaken = 57;
  std::vector<uint16_t> numbers(size_t{kRows * kColumns});
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<uint16_t>(i * 7919);
  const DeviceTensor x = tensor<uint16_t>(KEEL_BFLOAT16, {kRows, kColumns}, numbers);
  for (const int64_t axis : {0, 1}) {
    const int64_t rows = axis == 0 ? kTaken : kRows;
    const int64_t columns = axis == 0 ? kColumns : kTaken;
    std::vector<int32_t> places(static_cast<size_t>(rows * columns));
    std::mt19937 generator(9);
    for (int32_t& place : places) {
      place = static_cast<int32_t>(generator() % (axis == 0 ? kRows : kColumns));
    }
    const DeviceTensor index = tensor<int32_t>(KEEL_INT32, {rows, columns}, places);
    const DeviceTensor y(device(), KEEL_BFLOAT16, {rows, columns});
    run(KEEL_OP_GATHER, {x, index}, {y}, {integer(axis)});
    const std::vector<uint16_t> got = values<uint16_t>(y);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        const auto at = static_cast<size_t>(i * columns + j);
        const int64_t from = axis == 0 ? places[at] * kColumns + j : i * kColumns + places[at];
        ASSERT_EQ(got[at], numbers[static_cast<size_t>(from)]) << axis << ": " << i << ", " << j;
      }
    }
  }
}

// Duplicates are added in order, and the last is stored; y keeps its other elements.
TEST_P(CpuFamilies, ScatterTakesDuplicatesInOrder) {
  constexpr int64_t kRows = 1000;
  constexpr int64_t kColumns = 300;
  constexpr int64_t kTargets = 90;
  const std::vector<float> numbers = random_values(size_t{kRows * kColumns}, 10);
  const DeviceTensor x = floats({kRows, kColumns}, numbers);
  std::vector<int32_t> places(kRows);
  std::mt19937 generator(11);
  for (int32_t& place : places) place = static_cast<int32_t>(generator() % (kTargets + 20)) - 10;
  const DeviceTensor index = tensor<int32_t>(KEEL_INT32, {kRows}, places);
  const keel_tensor of_rows = matrix(index, kRows, kColumns, 1, 0);
  for (const int64_t add : {0, 1}) {
    std::vector<float> want(size_t{kTargets * kColumns}, 0.25f);
    const DeviceTensor y = floats({kTargets, kColumns}, want);
    run(KEEL_OP_SCATTER, {x, &of_rows}, {y}, {integer(0), integer(add)});
    for (size_t i = 0; i < size_t{kRows}; ++i) {
      if (places[i] < 0 || places[i] >= kTargets) continue;
      for (size_t j = 0; j < size_t{kColumns}; ++j) {
        float& target = want[static_cast<size_t>(places[i]) * kColumns + j];
        const float number = numbers[i * kColumns + j];
        target = add == 0 ? number : target + number;
      }
    }
    EXPECT_EQ(values(y), want) << add;
  }
}

TEST_P(CpuFamilies, ScatterAlongRows) {
  constexpr int64_t kRows = 257;
  constexpr int64_t kColumns = 100;
  constexpr int64_t kTargets = 31;
  std::vector<uint8_t> numbers(size_t{kRows * kColumns});
  std::vector<int64_t> places(numbers.size());
  std::mt19937 generator(12);
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<uint8_t>(generator());
    places[i] = static_cast<int64_t>(generator() % kTargets);
  }
  const DeviceTensor x = tensor<uint8_t>(KEEL_UINT8, {kRows, kColumns}, numbers);
  const DeviceTensor index = tensor<int64_t>(KEEL_INT64, {kRows, kColumns}, places);
  std::vector<uint8_t> want(size_t{kRows * kTargets}, 3);
  const DeviceTensor y = tensor<uint8_t>(KEEL_UINT8, {kRows, kTargets}, want);
  run(KEEL_OP_SCATTER, {x, index}, {y}, {integer(1), integer(1)});
  for (size_t i = 0; i < numbers.size(); ++i) {
    uint8_t& target = want[i / kColumns * kTargets + static_cast<size_t>(places[i])];
    target = static_cast<uint8_t>(target + numbers[i]);
  }
  EXPECT_EQ(values<uint8_t>(y), want);
}

}  // namespace
}  // namespace keel::cpu::testing
