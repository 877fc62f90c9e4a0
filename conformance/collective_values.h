// SPDX-License-Identifier: Apache-2.0
// What ranks send in the cases of collectives, and what must come of it.
#ifndef KEEL_CONFORMANCE_COLLECTIVE_VALUES_H_
#define KEEL_CONFORMANCE_COLLECTIVE_VALUES_H_

#include <keel/abi.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace keel::conformance {

using Bytes = std::vector<std::byte>;

// Element |i| of |rank|'s send buffer: whole numbers, whose results are exact in the dtype and
// wrong in the next narrower one, so that one put in its place shows.
int64_t value_of(keel_dtype dtype, keel_reduction reduction, uint32_t world, uint32_t rank,
                 uint64_t i);
// Of KEEL_PREMUL_SUM.
double factor_of(uint32_t rank);
// Element |i| of the reduction of all ranks' buffers.
int64_t reduced(keel_dtype dtype, keel_reduction reduction, uint32_t world, uint64_t i);
// |count| elements from |first| on of what |value|(i) says.
Bytes elements(keel_dtype dtype, uint64_t first, uint64_t count,
               const std::function<int64_t(uint64_t)>& value);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_COLLECTIVE_VALUES_H_
