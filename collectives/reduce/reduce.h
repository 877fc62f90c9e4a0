// SPDX-License-Identifier: Apache-2.0
// Reductions over host memory.
#ifndef KEEL_COLLECTIVES_REDUCE_REDUCE_H_
#define KEEL_COLLECTIVES_REDUCE_REDUCE_H_

#include <keel/keel.h>

#include <cstdint>
#include <span>

namespace keel {

// Whether (dtype, reduction) is supported: every combination of the plugin interface's values is,
// and each bitwise reduction of integers.
bool can_reduce(keel_dtype dtype, keel_reduction reduction);

// Whether elements of |dtype| can be multiplied by |factor|: integers only by a whole number from
// -2^63 to below 2^64.
bool can_premultiply(keel_dtype dtype, double factor);

// Target of stores: the caches, or memory past the caches. Streaming stores save the read of the
// overwritten lines, and suit large results not read again soon.
enum class Store { kCached, kStreaming };

struct ReduceOptions {
  std::span<const double> factors = {};  // one per source, for KEEL_PREMUL_SUM
  Store store = Store::kCached;
  uint64_t divisor = 0;  // for KEEL_AVG; 0: the number of sources
};

// Writes the reduction of |count| elements of all |sources| to every destination; a destination may
// equal a source. Reads each source once and writes each destination once. Combines the sources in
// order, so the result depends on the sources alone, and not on the processor. 16- and 8-bit floats
// are accumulated in float32 and rounded once; integers wrap, and integer averages truncate; min
// and max give NaN if any source has a NaN. A NaN in the result is positive and has no payload.
// Bitwise reductions of integers combine the bits.
// KEEL_PREMUL_SUM adds the products of sources and factors; factors and products are rounded to the
// accumulation type (integers wrap).
void reduce(keel_dtype dtype, keel_reduction reduction, std::span<const void* const> sources,
            std::span<void* const> destinations, uint64_t count, const ReduceOptions& options = {});

// memcpy with the choice to store past the caches.
void copy_bytes(void* destination, const void* source, uint64_t bytes, Store store);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_REDUCE_REDUCE_H_
