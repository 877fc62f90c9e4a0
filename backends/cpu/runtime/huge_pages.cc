// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/runtime/huge_pages.h"

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
    // By default the kernel gives shared memory no huge pages, so each page is requested explicitly
    // (since Linux 6.1). MADV_COLLAPSE requires a populated page; a private page must have been
    // written to.
    if (madvise(first + done, kPage, MADV_POPULATE_WRITE) != 0) break;
    if (madvise(first + done, kHugePage, MADV_COLLAPSE) != 0) break;
  }
  errno = error;
}

}  // namespace keel::cpu
