// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_SIMT_POCL_SHUFFLES_H_
#define KEEL_EMULATOR_SIMT_POCL_SHUFFLES_H_

#include <cstdint>
#include <set>
#include <span>
#include <string>

namespace keel::emulator::simt {

// Returns the names of the kernels of a SPIR-V module that exchange values within a subgroup
// (OpSubgroupShuffleXorINTEL), directly or in a function that they call.
std::set<std::string> kernels_that_shuffle(std::span<const uint32_t> module);

}  // namespace keel::emulator::simt

#endif  // KEEL_EMULATOR_SIMT_POCL_SHUFFLES_H_
