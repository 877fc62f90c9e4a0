// SPDX-License-Identifier: Apache-2.0
// transpose and cast_scaled of the built plugin: exact bits, which the cases of the schema table do
// not check.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <keel/float_types.hpp>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "backends/vulkan/test_plugin.h"

namespace keel::vulkan {
namespace {

using VulkanLayout = VulkanTest;

// Any bits, including NaN of any payload.
template <typename Element>
std::vector<Element> patterns(size_t count) {
  std::mt19937_64 generator(7);
  std::vector<Element> values(count);
  for (Element& value : values) value = static_cast<Element>(generator());
  return values;
}

TEST_F(VulkanLayout, TransposeMovesBits) {
  const auto check = [&]<typename Element>(keel_dtype dtype, Element) {
    for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{1031, 517}, {3, 70001}}) {
      const auto x = patterns<Element>(static_cast<size_t>(rows * columns));
      void* const device_x = upload(x);
      void* const device_y = alloc(x.size() * sizeof(Element));
      run({KEEL_OP_TRANSPOSE,
           {kit::make_tensor(device_x, dtype, {rows, columns})},
           {kit::make_tensor(device_y, dtype, {columns, rows})},
           {integer(0x10)}});
      const auto y = download<Element>(device_y, x.size());
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < columns; ++j) {
          ASSERT_EQ(y[static_cast<size_t>(j * rows + i)], x[static_cast<size_t>(i * columns + j)])
              << i << ", " << j;
        }
      }
    }
  };
  check(KEEL_FLOAT8_E4M3FN, uint8_t{});
  check(KEEL_BFLOAT16, uint16_t{});
  check(KEEL_FLOAT32, uint32_t{});
  check(KEEL_FLOAT64, uint64_t{});
}

// For rows of 16 bytes the tiles consist of the widest units.
TEST_F(VulkanLayout, TransposeOfShortRows) {
  const auto x = patterns<uint16_t>(size_t{50} * 70 * 8);
  void* const device_x = upload(x);
  void* const device_y = alloc(x.size() * sizeof(uint16_t));
  run({KEEL_OP_TRANSPOSE,
       {kit::make_tensor(device_x, KEEL_FLOAT16, {50, 70, 8})},
       {kit::make_tensor(device_y, KEEL_FLOAT16, {70, 50, 8})},
       {integer(0x102)}});
  const auto y = download<uint16_t>(device_y, x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(y[(i / 8 % 70 * 50 + i / 8 / 70) * 8 + i % 8], x[i]) << i;
  }
}

TEST_F(VulkanLayout, CastScaledRoundsAsTheTypesDo) {
  std::vector<float> x;  // any upper 18 bits, on ties and beside
  for (uint32_t upper = 0; upper < 1u << 18; ++upper) {
    for (const uint32_t lower : {0u, 1u, 0x3fffu}) {
      x.push_back(std::bit_cast<float>(upper << 14 | lower));
    }
  }
  const auto count = static_cast<int64_t>(x.size());
  void* const device_x = upload(x);
  void* const scale = upload(std::vector<float>{1});
  void* const amax = upload(std::vector<float>{7});
  void* const device_y = alloc(x.size());
  for (const keel_dtype dtype : {KEEL_FLOAT8_E4M3FN, KEEL_FLOAT8_E5M2}) {
    run({KEEL_OP_CAST_SCALED,
         {kit::make_tensor(device_x, KEEL_FLOAT32, {count}),
          kit::make_tensor(scale, KEEL_FLOAT32, {})},
         {kit::make_tensor(device_y, dtype, {count}), kit::make_tensor(amax, KEEL_FLOAT32, {})},
         {}});
    const auto got = download<uint8_t>(device_y, x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      const float held = std::isnan(x[i]) ? x[i] : std::clamp(x[i], -57344.0F, 57344.0F);
      const auto want = dtype == KEEL_FLOAT8_E4M3FN ? static_cast<uint8_t>(to_float8_e4m3(held))
                                                    : static_cast<uint8_t>(to_float8_e5m2(held));
      // A NaN may take the sign of its factor.
      if (std::isnan(held)) {
        ASSERT_EQ(got[i] & 0x7f, 0x7f) << x[i];
      } else {
        ASSERT_EQ(got[i], want) << x[i];
      }
    }
    EXPECT_EQ(download<uint32_t>(amax, 1)[0], 0x7fc00000U);
  }
}

TEST_F(VulkanLayout, CastScaledFindsTheLargest) {
  std::vector<float> x(200001, 0.5F);
  x[150000] = -77.5F;
  void* const scale = upload(std::vector<float>{4});
  void* const amax = upload(std::vector<float>{1e9F});
  void* const device_y = alloc(x.size());
  const auto largest = [&](int64_t count) {
    run({KEEL_OP_CAST_SCALED,
         {kit::make_tensor(upload(x), KEEL_FLOAT32, {count}),
          kit::make_tensor(scale, KEEL_FLOAT32, {})},
         {kit::make_tensor(device_y, KEEL_FLOAT8_E4M3FN, {count}),
          kit::make_tensor(amax, KEEL_FLOAT32, {})},
         {}});
    return download<uint32_t>(amax, 1)[0];
  };
  EXPECT_EQ(std::bit_cast<float>(largest(200001)), 77.5F);
  EXPECT_EQ(std::bit_cast<float>(largest(150000)), 0.5F);
  EXPECT_EQ(largest(0), 0U);
  x[3] = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(largest(200001), 0x7f800000U);
  x[200000] = std::bit_cast<float>(0xff812345U);  // a NaN with a payload
  EXPECT_EQ(largest(200001), 0x7fc00000U);
}

}  // namespace
}  // namespace keel::vulkan
