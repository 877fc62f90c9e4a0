// SPDX-License-Identifier: Apache-2.0
// Pages of 2 MiB for memory that the system would keep in pages of 4 KiB.
#ifndef KEEL_BACKENDS_CPU_HUGE_PAGES_H_
#define KEEL_BACKENDS_CPU_HUGE_PAGES_H_

#include <cstdint>

namespace keel::cpu {

// What one entry of the processor's own page table can map.
inline constexpr uint64_t kHugePage = uint64_t{2} << 20;
// What is larger may be a reserve that is never touched.
inline constexpr uint64_t kMostHuge = uint64_t{1} << 30;

// Commits what lies whole in [begin, begin + bytes) as huge pages, whatever else uses it meanwhile,
// if that is up to kMostHuge; of memory of any kind. Leaves errno. Where the kernel refuses (older
// than 6.1, nothing in one piece, pinned by a device, MADV_NOHUGEPAGE) the pages stay as they are.
// About 0.1 ms a MiB.
//
// Of a virtual machine's 4 KiB pages each 64 bytes of memory may cost a walk through two tables:
// sums of 128 MiB take 10.2 ms from such pages, and 8.1 from huge ones (Granite Rapids). And what
// another process reads by cross-memory attach the kernel looks up page by page: 16 MiB take 1.6 ms
// so, and 1.2.
void commit_huge_pages(void* begin, uint64_t bytes);

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_HUGE_PAGES_H_
