// SPDX-License-Identifier: Apache-2.0
#include "backends/vulkan/float_controls.h"

namespace keel::vulkan {

namespace {

// Numbers of the SPIR-V specification, sections 2.3 and 3.
constexpr size_t kHeaderWords = 5;
constexpr uint32_t kOpEntryPoint = 15;
constexpr uint32_t kOpExecutionMode = 16;
constexpr uint32_t kOpCapability = 17;
constexpr uint32_t kBits = 32;

// A mode and the capability that allows the mode.
struct Mode {
  uint32_t mode;
  uint32_t capability;
};
constexpr Mode kDenormPreserve = {4459, 4464};
constexpr Mode kSignedZeroInfNanPreserve = {4461, 4466};

constexpr uint32_t instruction(uint32_t opcode, uint32_t words) {
  return words << 16 | opcode;
}

}  // namespace

std::vector<uint32_t> with_float_controls(std::span<const uint32_t> module,
                                          const FloatControls& controls) {
  std::vector<Mode> modes;
  if (controls.nan) modes.push_back(kSignedZeroInfNanPreserve);
  if (controls.subnormal) modes.push_back(kDenormPreserve);

  std::vector<uint32_t> out;
  out.reserve(module.size() + modes.size() * 16);
  out.insert(out.end(), module.begin(), module.begin() + kHeaderWords);
  // A module begins with its capabilities; its execution modes follow its entry points.
  for (const Mode& each : modes) {
    out.insert(out.end(), {instruction(kOpCapability, 2), each.capability});
  }
  std::vector<uint32_t> entry_points;
  for (size_t at = kHeaderWords; at < module.size();) {
    const uint32_t opcode = module[at] & 0xffff;
    const uint32_t words = module[at] >> 16;
    if (opcode == kOpEntryPoint) {
      entry_points.push_back(module[at + 2]);
    } else {
      for (const uint32_t entry_point : entry_points) {
        for (const Mode& each : modes) {
          out.insert(out.end(), {instruction(kOpExecutionMode, 4), entry_point, each.mode, kBits});
        }
      }
      entry_points.clear();
    }
    out.insert(out.end(), module.begin() + static_cast<ptrdiff_t>(at),
               module.begin() + static_cast<ptrdiff_t>(at + words));
    at += words;
  }
  return out;
}

}  // namespace keel::vulkan
