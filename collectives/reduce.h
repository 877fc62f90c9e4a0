// SPDX-License-Identifier: Apache-2.0
// Reductions over host memory.
#ifndef KEEL_COLLECTIVES_REDUCE_H_
#define KEEL_COLLECTIVES_REDUCE_H_

#include <keel/keel.h>

#include <cstdint>
#include <span>

namespace keel {

// Whether (dtype, reduction) is offered: every one of both.
bool can_reduce(keel_dtype dtype, keel_reduction reduction);

// Whether elements of |dtype| can be multiplied by |factor|: of integers, only by a whole
// number from -2^63 to 2^64 - 1.
bool can_premultiply(keel_dtype dtype, double factor);

// Where results go: to the caches, or past them to memory. The latter saves reading what
// is overwritten, and is for what is large and not read again soon.
enum class Store { kCached, kStreaming };

struct ReduceOptions {
  std::span<const double> factors = {};  // one a source, of KEEL_PREMUL_SUM
  Store store = Store::kCached;
  uint64_t divisor = 0;  // of KEEL_AVG; 0: as many as there are sources
};

// Writes the reduction of |count| elements of all |sources| to every destination; a
// destination may equal a source. Sources are taken in order, so the result depends on
// nothing else, and not on the processor. 16- and 8-bit floats are accumulated in float32
// and rounded once; integers wrap, and their average truncates; min and max give NaN where
// any source has one. A NaN of the result is positive and has no payload. KEEL_PREMUL_SUM
// adds products of each source and its factor, which is rounded to the type of the sums
// (of integers: wraps), as each product is. Reads each source once and writes each
// destination once.
void reduce(keel_dtype dtype, keel_reduction reduction, std::span<const void* const> sources,
            std::span<void* const> destinations, uint64_t count, const ReduceOptions& options = {});

// memcpy, which may be told to store past the caches.
void copy_bytes(void* destination, const void* source, uint64_t bytes, Store store);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_REDUCE_H_
