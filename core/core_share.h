// SPDX-License-Identifier: Apache-2.0
// Which cores are whose, where the ranks of a host share its cores out evenly.
#ifndef KEEL_CORE_CORE_SHARE_H_
#define KEEL_CORE_CORE_SHARE_H_

#include <sched.h>

#include <algorithm>
#include <cstdint>

namespace keel {

// The cores of |usable|, which is not empty, for |rank| of |ranks|: each as many, in order; of
// more ranks than cores, one core for neighbours. Linux leaves eight threads that offer one
// another two cores where they began, for tenths of a second: seven of them on one core make a
// small all_reduce take 7.8 us, four 4.5.
inline cpu_set_t core_share(const cpu_set_t& usable, uint32_t rank, uint32_t ranks) {
  const auto count = static_cast<uint64_t>(CPU_COUNT(&usable));
  const uint64_t begin = rank * count / ranks;
  const uint64_t end = std::max(begin + 1, (rank + 1) * count / ranks);
  cpu_set_t share;
  CPU_ZERO(&share);
  uint64_t index = 0;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &usable)) continue;
    if (index >= begin && index < end) CPU_SET(core, &share);
    ++index;
  }
  return share;
}

}  // namespace keel

#endif  // KEEL_CORE_CORE_SHARE_H_
