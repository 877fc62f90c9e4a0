// SPDX-License-Identifier: Apache-2.0
// The instructions of two numbers.
#ifndef KEEL_EMULATOR_SPIRV_ARITHMETIC_H_
#define KEEL_EMULATOR_SPIRV_ARITHMETIC_H_

#include <cstdint>

namespace keel::emulator::spirv {

// Whether instruction |code| computes in floats.
bool is_real(uint32_t code);
// Computes in floats of |bytes| bytes. Returns false for another size or instruction.
bool compute_real(uint32_t code, uint64_t bytes, uint64_t a, uint64_t b, uint64_t* out_result);
// |signed_a|, |signed_b|: the numbers with their sign extended. The result may have bits beyond its
// type. Returns false for another instruction.
bool compute_integer(uint32_t code, uint64_t a, uint64_t b, int64_t signed_a, int64_t signed_b,
                     uint64_t* out_result);

}  // namespace keel::emulator::spirv

#endif  // KEEL_EMULATOR_SPIRV_ARITHMETIC_H_
