// SPDX-License-Identifier: Apache-2.0
// Workers that are refused shared memory, as where the machine has none left.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_TESTING_REFUSED_MEMORY_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_TESTING_REFUSED_MEMORY_H_

#include <string>

namespace keel::testing {

// The calls in which the kernel may have no memory for a file without a name.
enum class MemoryStep { kMaking, kSizing, kMapping };

// For workers: from now on the system has no memory for that step of the files |name|
// ("keel-stage", as /proc shows it) of this process; for all steps of all files again once |name|
// is empty. The program's own memfd_create, ftruncate and mmap, which refused_memory.cc has, see to
// it: a limit of the process's own would meet every other file, or its whole memory, too.
void refuse_memory(MemoryStep step, const std::string& name);

}  // namespace keel::testing

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_TESTING_REFUSED_MEMORY_H_
