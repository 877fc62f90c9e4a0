// SPDX-License-Identifier: Apache-2.0
#include "core/mapped_memory.h"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

namespace keel {

bool is_mapped(const void* pointer, uint64_t size) {
  if (size == 0) return true;
  const auto begin = reinterpret_cast<uintptr_t>(pointer);
  if (begin + (size - 1) < begin) return false;
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t first = begin & ~(page - 1);
  // MS_ASYNC has no effect on Linux but the check of the whole range.
  if (msync(reinterpret_cast<void*>(first), begin + size - first, MS_ASYNC) != 0) return false;
  char ends[2];
  const iovec local = {ends, sizeof(ends)};
  const iovec remote[] = {{reinterpret_cast<void*>(begin), 1},
                          {reinterpret_cast<void*>(begin + size - 1), 1}};
  const ssize_t got = process_vm_readv(getpid(), &local, 1, remote, 2, 0);
  return got == sizeof(ends) || (got < 0 && errno != EFAULT);
}

}  // namespace keel
