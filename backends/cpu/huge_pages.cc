// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/huge_pages.h"

#include <sys/mman.h>

#include <cerrno>

namespace keel::cpu {

void commit_huge_pages(void* begin, uint64_t bytes) {
#if !defined(MADV_COLLAPSE)
  constexpr int MADV_COLLAPSE = 25;
#endif
  constexpr uint64_t kPage = 4096;
  const uint64_t head = -reinterpret_cast<uintptr_t>(begin) % kHugePage;
  if (bytes > kMostHuge || bytes < head) return;
  char* const first = static_cast<char*>(begin) + head;
  const int error = errno;
  for (uint64_t done = 0; head + done + kHugePage <= bytes; done += kHugePage) {
    // By default the kernel gives shared memory none, so it is asked for each by name, which Linux
    // 6.1 knows; it wants something to be there already, and where it is the process's own, to be
    // written to.
    if (madvise(first + done, kPage, MADV_POPULATE_WRITE) != 0) break;
    if (madvise(first + done, kHugePage, MADV_COLLAPSE) != 0) break;
  }
  errno = error;
}

}  // namespace keel::cpu
