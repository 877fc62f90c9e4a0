// SPDX-License-Identifier: Apache-2.0
// Sums whose bits depend on the order in which they are added.
#ifndef KEEL_COLLECTIVES_TESTING_ROUNDING_H_
#define KEEL_COLLECTIVES_TESTING_ROUNDING_H_

#include <keel/keel.h>

#include <cstdint>
#include <string>

namespace keel::testing {

// |count| numbers between 0.5 and 1.5 of either sign, no two sums of which are exact; of float32,
// float64 or bfloat16.
std::string inexact(keel_dtype dtype, uint64_t count, uint32_t seed);

// All_reduces of such, run by rank |rank| of |comm|, which compares each result with that of rank
// 0. What went wrong, or nothing.
std::string compare_rounded(uint32_t rank, keel_device device, keel_comm comm, keel_stream stream);

}  // namespace keel::testing

#endif  // KEEL_COLLECTIVES_TESTING_ROUNDING_H_
