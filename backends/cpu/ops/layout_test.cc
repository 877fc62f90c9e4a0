// SPDX-License-Identifier: Apache-2.0
// transpose and cast_scaled through the CPU plugin: exact bits, which the cases of the schema table
// do not check, and independence of the number of cores.
#include <gtest/gtest.h>

#include <bit>
#include <keel/float_types.hpp>
#include <limits>

#include "backends/cpu/testing/ops_fixture.h"

namespace keel::cpu::testing {
namespace {

INSTANTIATE_TEST_SUITE_P(Cores, CpuOps, ::testing::Values("1", "2"),
                         [](const auto& info) { return std::string("cores") + info.param; });

// Every bit pattern of an element, including NaN of any payload.
template <typename Element>
std::vector<Element> patterns(size_t count) {
  std::mt19937_64 generator(7);
  std::vector<Element> values(count);
  for (Element& value : values) value = static_cast<Element>(generator());
  return values;
}

template <typename Element>
void expect_transposed(const std::vector<Element>& x, const std::vector<Element>& y, size_t rows,
                       size_t columns) {
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) {
      ASSERT_EQ(y[j * rows + i], x[i * columns + j]) << i << ", " << j;
    }
  }
}

TEST_P(CpuOps, TransposeMovesBits) {
  const auto check = [&]<typename Element>(keel_dtype dtype, Element) {
    for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{1031, 517}, {3, 70001}}) {
      const auto values_of_x = patterns<Element>(static_cast<size_t>(rows * columns));
      const DeviceTensor x = tensor<Element>(dtype, {rows, columns}, values_of_x);
      const DeviceTensor y(device(), dtype, {columns, rows});
      run(KEEL_OP_TRANSPOSE, {x}, {y}, {integer(0x10)});
      expect_transposed(values_of_x, values<Element>(y), static_cast<size_t>(rows),
                        static_cast<size_t>(columns));
    }
  };
  check(KEEL_FLOAT8_E4M3FN, uint8_t{});
  check(KEEL_BFLOAT16, uint16_t{});
  check(KEEL_FLOAT32, uint32_t{});
  check(KEEL_FLOAT64, uint64_t{});
}

// Moves heads to the front and back, as attention needs: rows stay whole.
TEST_P(CpuOps, TransposeThereAndBack) {
  const auto values_of_x = patterns<uint16_t>(size_t{3} * 50 * 7 * 40);
  const DeviceTensor x = tensor<uint16_t>(KEEL_FLOAT16, {3, 50, 7, 40}, values_of_x);
  const DeviceTensor y(device(), KEEL_FLOAT16, {3, 7, 50, 40});
  const DeviceTensor back(device(), KEEL_FLOAT16, {3, 50, 7, 40});
  run(KEEL_OP_TRANSPOSE, {x}, {y}, {integer(0x0213)});
  const std::vector<uint16_t> moved = values<uint16_t>(y);
  EXPECT_EQ(moved[(size_t{2} * 7 + 5) * 50 * 40 + 11 * 40 + 13],
            values_of_x[((size_t{2} * 50 + 11) * 7 + 5) * 40 + 13]);
  run(KEEL_OP_TRANSPOSE, {y}, {back}, {integer(0x0213)});
  EXPECT_EQ(values<uint16_t>(back), values_of_x);
}

// All float32 by the upper 18 bits of a number, beside ties and on ties.
std::vector<float> many_floats() {
  std::vector<float> values;
  for (uint32_t upper = 0; upper < 1u << 18; ++upper) {
    for (const uint32_t lower : {0u, 1u, 0x3fffu}) {
      values.push_back(std::bit_cast<float>(upper << 14 | lower));
    }
  }
  return values;
}

TEST_P(CpuOps, CastScaledRoundsAsTheTypesDo) {
  const std::vector<float> x = many_floats();
  const auto count = static_cast<int64_t>(x.size());
  const DeviceTensor device_x = floats({count}, x);
  const DeviceTensor scale = floats({}, {1});
  const DeviceTensor amax = floats({}, {1});
  for (const keel_dtype dtype : {KEEL_FLOAT8_E4M3FN, KEEL_FLOAT8_E5M2}) {
    const DeviceTensor y(device(), dtype, {count});
    run(KEEL_OP_CAST_SCALED, {device_x, scale}, {y, amax});
    const std::vector<uint8_t> got = values<uint8_t>(y);
    for (size_t i = 0; i < x.size(); ++i) {
      const float held = std::isnan(x[i]) ? x[i] : std::clamp(x[i], -57344.0f, 57344.0f);
      const auto want = dtype == KEEL_FLOAT8_E4M3FN ? static_cast<uint8_t>(to_float8_e4m3(held))
                                                    : static_cast<uint8_t>(to_float8_e5m2(held));
      ASSERT_EQ(got[i], want) << x[i];
    }
    EXPECT_EQ(std::bit_cast<uint32_t>(values(amax)[0]), 0x7fc00000u);
  }
}

TEST_P(CpuOps, CastScaledFromEveryCode) {
  std::vector<uint8_t> codes(256);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i);
  const DeviceTensor scale = floats({}, {1});
  const DeviceTensor amax = floats({}, {1});
  for (const keel_dtype dtype : {KEEL_FLOAT8_E4M3FN, KEEL_FLOAT8_E5M2}) {
    const DeviceTensor x = tensor<uint8_t>(dtype, {256}, codes);
    const DeviceTensor y = floats({256}, std::vector<float>(256));
    run(KEEL_OP_CAST_SCALED, {x, scale}, {y, amax});
    const std::vector<float> got = values(y);
    for (size_t i = 0; i < codes.size(); ++i) {
      const float want = dtype == KEEL_FLOAT8_E4M3FN ? to_float(static_cast<float8_e4m3_t>(i))
                                                     : to_float(static_cast<float8_e5m2_t>(i));
      EXPECT_EQ(std::isnan(got[i]), std::isnan(want)) << i;
      if (!std::isnan(want)) {
        EXPECT_EQ(got[i], want) << i;
      }
    }
  }
}

TEST_P(CpuOps, CastScaledFindsTheLargest) {
  std::vector<float> x = random_values(200001, 5);
  const DeviceTensor scale = floats({}, {4});
  const DeviceTensor amax = floats({}, {1});
  const DeviceTensor y(device(), KEEL_FLOAT8_E4M3FN, {200001});
  const auto largest = [&] {
    run(KEEL_OP_CAST_SCALED, {floats({200001}, x), scale}, {y, amax});
    return std::bit_cast<uint32_t>(values(amax)[0]);
  };
  x[150000] = -77.5f;
  EXPECT_EQ(std::bit_cast<float>(largest()), 77.5f);
  x[3] = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(largest(), 0x7f800000u);
  x[200000] = std::bit_cast<float>(0xff812345u);  // a NaN with a payload
  EXPECT_EQ(largest(), 0x7fc00000u);
}

// An earlier call on the stream writes the scale.
TEST_P(CpuOps, CastScaledReadsTheScaleWhenItsTurnComes) {
  const DeviceTensor x = floats({1}, {3});
  const DeviceTensor scale = floats({}, {1});
  const DeviceTensor amax = floats({}, {1});
  const DeviceTensor y(device(), KEEL_FLOAT8_E5M2, {1});
  run(KEEL_OP_FILL, {}, {scale}, {real(2)});
  run(KEEL_OP_CAST_SCALED, {x, scale}, {y, amax});
  EXPECT_EQ(to_float(static_cast<float8_e5m2_t>(values<uint8_t>(y)[0])), 6);
  EXPECT_EQ(values(amax)[0], 3);
}

}  // namespace
}  // namespace keel::cpu::testing
