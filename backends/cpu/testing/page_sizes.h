// SPDX-License-Identifier: Apache-2.0
// The page sizes of memory, as reported in /proc/self/smaps.
#ifndef KEEL_BACKENDS_CPU_TESTING_PAGE_SIZES_H_
#define KEEL_BACKENDS_CPU_TESTING_PAGE_SIZES_H_

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

#include "backends/cpu/runtime/huge_pages.h"

namespace keel::cpu {

// Bytes of the mapping at |address| in huge pages, shared or private.
inline uint64_t huge_bytes_at(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  bool is_there = false;
  uint64_t bytes = 0;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    uint64_t kib = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      const auto wanted = reinterpret_cast<uintptr_t>(address);
      is_there = begin <= wanted && wanted < end;
    } else if (is_there && (std::sscanf(line.c_str(), "ShmemPmdMapped: %lu kB", &kib) == 1 ||
                            std::sscanf(line.c_str(), "AnonHugePages: %lu kB", &kib) == 1)) {
      bytes += kib << 10;
    }
  }
  return bytes;
}

// Whether the kernel converts the memory at |address|, a multiple of kHugePage, to a huge page.
inline bool can_be_huge(void* address) {
  return madvise(address, kHugePage, 25 /* MADV_COLLAPSE */) == 0;
}

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_TESTING_PAGE_SIZES_H_
