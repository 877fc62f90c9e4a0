// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_SPIRV_INTERPRETER_H_
#define KEEL_EMULATOR_SPIRV_INTERPRETER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "emulator/memory.h"
#include "emulator/spirv/module.h"
#include "emulator/status.h"

namespace keel::emulator::spirv {

// The host's setting of a parameter: the bytes of a value or an address, or the size of local
// memory.
struct Argument {
  std::vector<std::byte> bytes;
  uint64_t local_bytes = 0;
};

struct Launch {
  std::array<uint32_t, 3> grid = {1, 1, 1};   // in groups
  std::array<uint32_t, 3> group = {1, 1, 1};  // in threads
  std::vector<Argument> arguments;            // one for each parameter
};

// Runs all threads of a launch, group after group, and the threads of a group in turns between
// barriers. Returns kIllegalAddress for an access outside of the memory that |access| reaches, and
// kFailed for what the kernel or |launch| has wrong.
Status run(const Module& module, const Kernel& kernel, const Launch& launch, Access& access);

}  // namespace keel::emulator::spirv

#endif  // KEEL_EMULATOR_SPIRV_INTERPRETER_H_
