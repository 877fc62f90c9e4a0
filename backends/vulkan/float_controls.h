// SPDX-License-Identifier: Apache-2.0
// Execution modes by which a shader computes as it is written. Without them a driver may take
// comparisons with NaN for either result (NVIDIA's makes min and max of them: a clamp of NaN was
// low) and subnormals for 0.
#ifndef KEEL_BACKENDS_VULKAN_FLOAT_CONTROLS_H_
#define KEEL_BACKENDS_VULKAN_FLOAT_CONTROLS_H_

#include <cstdint>
#include <span>
#include <vector>

namespace keel::vulkan {

// The values of float32 that a device's shaders can be told to keep.
struct FloatControls {
  bool nan = false;        // NaN, infinities and signed zeros
  bool subnormal = false;  // of operands and of results
};

// Returns |module|, SPIR-V 1.4 or later (these modes are extensions before), with |controls| as
// execution modes of each entry point. Trusts |module|, which is Keel's own.
std::vector<uint32_t> with_float_controls(std::span<const uint32_t> module,
                                          const FloatControls& controls);

}  // namespace keel::vulkan

#endif  // KEEL_BACKENDS_VULKAN_FLOAT_CONTROLS_H_
