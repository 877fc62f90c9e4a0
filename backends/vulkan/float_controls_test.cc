// SPDX-License-Identifier: Apache-2.0
#include "backends/vulkan/float_controls.h"

#include <gtest/gtest.h>

#include <vector>

namespace keel::vulkan {
namespace {

constexpr uint32_t kCapability = 2 << 16 | 17;
constexpr uint32_t kEntryPoint = 4 << 16 | 15;
constexpr uint32_t kExecutionMode = 4 << 16 | 16;

// Two entry points, %2 and %3, with a mode of the first.
const std::vector<uint32_t> kModule = {
    0x07230203,     0x00010500, 0,  10,  0,  // header
    kCapability,    1,                       // Shader
    kEntryPoint,    5,          2,  'a',     // GLCompute %2 "a"
    kEntryPoint,    5,          3,  'b',     // GLCompute %3 "b"
    kExecutionMode, 2,          17, 8,       // cut short: nothing reads the operands
    0x00020013,     4,                       // %4 = OpTypeVoid
};

TEST(FloatControls, AreModesOfEachEntryPoint) {
  const std::vector<uint32_t> wanted = {
      0x07230203,     0x00010500, 0,    10,  0,  //
      kCapability,    4466,                      // SignedZeroInfNanPreserve
      kCapability,    4464,                      // DenormPreserve
      kCapability,    1,                         //
      kEntryPoint,    5,          2,    'a',     //
      kEntryPoint,    5,          3,    'b',     //
      kExecutionMode, 2,          4461, 32,      //
      kExecutionMode, 2,          4459, 32,      //
      kExecutionMode, 3,          4461, 32,      //
      kExecutionMode, 3,          4459, 32,      //
      kExecutionMode, 2,          17,   8,       //
      0x00020013,     4,
  };
  EXPECT_EQ(with_float_controls(kModule, {.nan = true, .subnormal = true}), wanted);
}

TEST(FloatControls, ADeviceWithoutThemGetsTheModuleAsItIs) {
  EXPECT_EQ(with_float_controls(kModule, {}), kModule);
}

}  // namespace
}  // namespace keel::vulkan
