// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_CCL_ARITHMETIC_H_
#define KEEL_EMULATOR_CCL_ARITHMETIC_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "emulator/ccl/call.h"

namespace keel::emulator::ccl {

// Reduces element by element over |sources|, in order. Sums floats of 16 and 8 bits in float32 and
// rounds once; integers wrap, and their average truncates; NaN wins min and max. |factors|: one per
// source, for kScaledSum. |result| holds |count| elements and overlaps no source.
void reduce(Type type, Reduction reduction, std::span<const std::byte* const> sources,
            std::span<const double> factors, uint64_t count, std::byte* result);

}  // namespace keel::emulator::ccl

#endif  // KEEL_EMULATOR_CCL_ARITHMETIC_H_
