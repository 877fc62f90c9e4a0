// SPDX-License-Identifier: Apache-2.0
// Runs operators of the built plugin on tensors of random numbers.
#ifndef KEEL_BACKENDS_VULKAN_OPS_FIXTURE_H_
#define KEEL_BACKENDS_VULKAN_OPS_FIXTURE_H_

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "backends/vulkan/test_plugin.h"

namespace keel::vulkan {

inline std::vector<float> random_floats(size_t count, uint32_t seed, float scale = 1.0F) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0.0F, scale);
  std::vector<float> data(count);
  for (float& value : data) value = normal(engine);
  return data;
}

inline std::vector<int32_t> random_ints(size_t count, uint32_t seed, int32_t low, int32_t high) {
  std::mt19937 engine(seed);
  std::uniform_int_distribution<int32_t> uniform(low, high);
  std::vector<int32_t> data(count);
  for (int32_t& value : data) value = uniform(engine);
  return data;
}

class VulkanOps : public VulkanTest {
 protected:
  static keel_tensor floats(void* data, std::initializer_list<int64_t> shape) {
    return kit::make_tensor(data, KEEL_FLOAT32, shape);
  }
  static keel_tensor ints(void* data, std::initializer_list<int64_t> shape) {
    return kit::make_tensor(data, KEEL_INT32, shape);
  }

  // Expects each element within |relative| of |expected|, or within |absolute| near zero.
  void expect_near(void* device, const std::vector<double>& expected, double relative,
                   double absolute, const std::string& what) {
    const std::vector<float> got = download<float>(device, expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      const double bound = relative * std::fabs(expected[i]) + absolute;
      ASSERT_LE(std::fabs(static_cast<double>(got[i]) - expected[i]), bound)
          << what << "[" << i << "]: " << got[i] << ", expected " << expected[i];
    }
  }
};

}  // namespace keel::vulkan

#endif  // KEEL_BACKENDS_VULKAN_OPS_FIXTURE_H_
