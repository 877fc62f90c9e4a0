// SPDX-License-Identifier: Apache-2.0
// Shared memory that has no name.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_SHARED_FILE_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_SHARED_FILE_H_

#include <cstdint>

#include "collectives/bootstrap/file_descriptor.h"
#include "core/status.h"

namespace keel {

// Whether this process may make a file that long (ulimit -f). Past the limit it is not an error
// but a signal, which kills.
bool may_have_file(uint64_t bytes);

// |bytes| of zeroes, sealed against another size, for others to map. |name|: as /proc shows it.
// KEEL_UNAVAILABLE when no more files may be opened; KEEL_OUT_OF_MEMORY.
Status create_shared_file(const char* name, uint64_t bytes, FileDescriptor* out_file);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_SHARED_FILE_H_
