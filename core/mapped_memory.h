// SPDX-License-Identifier: Apache-2.0
// Whether memory of this process is there.
#ifndef KEEL_CORE_MAPPED_MEMORY_H_
#define KEEL_CORE_MAPPED_MEMORY_H_

#include <cstdint>

namespace keel {

// Returns whether all pages of [pointer, pointer + size) are mapped, and the first and the last
// byte readable; true for no bytes. Touches no page but those two. One system call for bytes of one
// page, at most three, 0.1 us each, independent of |size| within one mapping.
bool is_mapped(const void* pointer, uint64_t size);

}  // namespace keel

#endif  // KEEL_CORE_MAPPED_MEMORY_H_
