// SPDX-License-Identifier: Apache-2.0
// Remote address of a buffer of one rank.
#ifndef KEEL_COLLECTIVES_TRANSPORTS_MEM_HANDLE_H_
#define KEEL_COLLECTIVES_TRANSPORTS_MEM_HANDLE_H_

#include <cstdint>

namespace keel {

// Remote address of a buffer: |address| in the owner's process; in other processes, |offset| bytes
// into the shared memory object (device, inode), which the owner's MemHandleServer hands out.
struct MemHandle {
  uint64_t address = 0;
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t offset = 0;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_TRANSPORTS_MEM_HANDLE_H_
