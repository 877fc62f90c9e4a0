// Reductions over host memory.
#ifndef KEEL_COLLECTIVES_REDUCE_H_
#define KEEL_COLLECTIVES_REDUCE_H_

#include <keel/keel.h>

#include <cstdint>
#include <span>

namespace keel {

// Whether (dtype, reduction) is offered: every dtype, and sum, prod, min, max, avg.
bool can_reduce(keel_dtype dtype, keel_reduction reduction);

// Writes the reduction of |count| elements of all |sources| to every destination; a
// destination may equal a source. Sources are taken in order, so the result depends on
// nothing else. 16- and 8-bit floats are accumulated in float32 and rounded once;
// integers wrap, and their average truncates; min and max give NaN where any source has
// one. Reads each source once and writes each destination once, in blocks that stay in
// the first-level cache between.
void reduce(keel_dtype dtype, keel_reduction reduction, std::span<const void* const> sources,
            std::span<void* const> destinations, uint64_t count);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_REDUCE_H_
