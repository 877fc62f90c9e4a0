// SPDX-License-Identifier: Apache-2.0
// Shared mappings of this process in its forked children.
#ifndef KEEL_BACKENDS_CPU_RUNTIME_FORK_MEMORY_H_
#define KEEL_BACKENDS_CPU_RUNTIME_FORK_MEMORY_H_

#include <cstdint>

namespace keel::cpu {

// The numbers of KEEL_FORK_* in keel.h.
enum class ForkMemory : uint32_t { kPrivate = 0, kUnmapped = 1, kShared = 2 };

// Sets what children forked from now on get of mappings added from now on.
void set_fork_memory(ForkMemory choice);

// Adds [host, host + size), a shared mapping of |fd| from the file's start. A private mapping of
// the file replaces the mapping in each child (a fork handler maps it; some 2 us a mapping, of 64
// MiB and more each), or the kernel leaves it out. |fd| stays open until remove_fork_mapping().
// Returns false if memory ran out. Thread-safe, also against fork.
bool add_fork_mapping(char* host, uint64_t size, int fd);
// Does nothing for a mapping that was not added.
void remove_fork_mapping(char* host);

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_RUNTIME_FORK_MEMORY_H_
