// SPDX-License-Identifier: Apache-2.0
// Pages of 2 MiB for memory that the system would keep in pages of 4 KiB.
#ifndef KEEL_BACKENDS_CPU_RUNTIME_HUGE_PAGES_H_
#define KEEL_BACKENDS_CPU_RUNTIME_HUGE_PAGES_H_

#include <cstdint>

namespace keel::cpu {

// The size that one entry of a page directory maps.
inline constexpr uint64_t kHugePage = uint64_t{2} << 20;
// Larger allocations are not committed: they may be a reserve that is never touched.
inline constexpr uint64_t kMostHuge = uint64_t{1} << 30;

// Commits the whole 2 MiB pages of [begin, begin + bytes) as huge pages, for memory of any kind,
// while other threads may use the memory; does nothing if |bytes| exceeds kMostHuge. Preserves
// errno. Where the kernel refuses (older than 6.1, no contiguous memory, pinned by a device,
// MADV_NOHUGEPAGE) the pages stay as they are. Takes about 0.1 ms per MiB.
//
// With 4 KiB pages in a virtual machine, each 64 bytes of memory may cost a walk through two page
// tables: sums of 128 MiB take 10.2 ms from 4 KiB pages and 8.1 ms from huge pages (Granite
// Rapids). For cross-memory attach the kernel looks up the source page by page: reading 16 MiB
// takes 1.6 ms from 4 KiB pages and 1.2 ms from huge pages.
void commit_huge_pages(void* begin, uint64_t bytes);

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_RUNTIME_HUGE_PAGES_H_
