// SPDX-License-Identifier: Apache-2.0
// The code objects of the emulated hiprtc: an ELF header for AMD GPUs with flags that no GPU
// has, and the name of the family of kernels that the code stands for.
#ifndef KEEL_EMULATOR_SHIMS_HIP_COMPILED_CODE_H_
#define KEEL_EMULATOR_SHIMS_HIP_COMPILED_CODE_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace keel::emulator::hip {

inline constexpr uint32_t kCompiledFlags = 0x6b65656c;

std::string compiled_code(std::string_view family);
// Returns the family of |image|; NULL if |image| is other code.
const char* compiled_family(const void* image);

}  // namespace keel::emulator::hip

#endif  // KEEL_EMULATOR_SHIMS_HIP_COMPILED_CODE_H_
