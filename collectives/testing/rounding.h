// SPDX-License-Identifier: Apache-2.0
// Sums whose bits depend on the order of addition.
#ifndef KEEL_COLLECTIVES_TESTING_ROUNDING_H_
#define KEEL_COLLECTIVES_TESTING_ROUNDING_H_

#include <keel/keel.h>

#include <cstdint>
#include <string>

namespace keel::testing {

// Returns |count| numbers of either sign and magnitude 0.5 to 1.5, in float32, float64 or bfloat16.
// No sum of two of them is exact.
std::string inexact(keel_dtype dtype, uint64_t count, uint32_t seed);

// Runs all_reduces of inexact() data as rank |rank| of |comm| and compares each result with rank
// 0's. Returns the failure, or an empty text.
std::string compare_rounded(uint32_t rank, keel_device device, keel_comm comm, keel_stream stream);

}  // namespace keel::testing

#endif  // KEEL_COLLECTIVES_TESTING_ROUNDING_H_
