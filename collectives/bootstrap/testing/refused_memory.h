// SPDX-License-Identifier: Apache-2.0
// Denies shared memory to workers, as on a machine that is out of memory.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_TESTING_REFUSED_MEMORY_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_TESTING_REFUSED_MEMORY_H_

#include <string>

namespace keel::testing {

// System calls in which the kernel may be out of memory for a memfd.
enum class MemoryStep { kMaking, kSizing, kMapping };

// For workers: from now on |step| fails with an out-of-memory error for this process's memfds
// |name| ("keel-stage", as shown in /proc); an empty |name| ends all refusals. Implemented by the
// program's own memfd_create, ftruncate and mmap in refused_memory.cc: a limit on the process would
// also affect every other file, or all of its memory.
void refuse_memory(MemoryStep step, const std::string& name);

}  // namespace keel::testing

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_TESTING_REFUSED_MEMORY_H_
