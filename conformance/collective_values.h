// SPDX-License-Identifier: Apache-2.0
// Input data of the collectives cases, and the expected results.
#ifndef KEEL_CONFORMANCE_COLLECTIVE_VALUES_H_
#define KEEL_CONFORMANCE_COLLECTIVE_VALUES_H_

#include <keel/abi.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace keel::conformance {

using Bytes = std::vector<std::byte>;

// Returns element |i| of |rank|'s send buffer. Values are whole numbers whose results are exact in
// the dtype and wrong in the next narrower dtype, so that computing in the narrower dtype is
// detected.
int64_t value_of(keel_dtype dtype, keel_reduction reduction, uint32_t world, uint32_t rank,
                 uint64_t i);
// Returns the rank's factor for KEEL_PREMUL_SUM.
double factor_of(keel_dtype dtype, uint32_t rank);
// Returns element |i| of the reduction over all ranks' buffers.
int64_t reduced(keel_dtype dtype, keel_reduction reduction, uint32_t world, uint64_t i);
// Encodes |count| elements in |dtype|: |value|(i) for i from |first| on.
Bytes elements(keel_dtype dtype, uint64_t first, uint64_t count,
               const std::function<int64_t(uint64_t)>& value);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_COLLECTIVE_VALUES_H_
