// SPDX-License-Identifier: Apache-2.0
// Anonymous shared memory (memfd).
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_SHARED_FILE_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_SHARED_FILE_H_

#include <cstdint>

#include "base/ipc/file_descriptor.h"
#include "core/status.h"

namespace keel {

// Whether this process may create a file of |bytes| (ulimit -f). Exceeding the limit raises a
// signal (SIGXFSZ) that kills the process, instead of an error.
bool may_have_file(uint64_t bytes);

// Creates a zero-filled memfd of |bytes|, sealed against any change of size, for other processes to
// map. |name|: as shown in /proc. KEEL_UNAVAILABLE when out of file descriptors;
// KEEL_OUT_OF_MEMORY.
Status create_shared_file(const char* name, uint64_t bytes, FileDescriptor* out_file);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_SHARED_FILE_H_
