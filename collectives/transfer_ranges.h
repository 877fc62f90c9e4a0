// SPDX-License-Identifier: Apache-2.0
// Memory that the messages of one group read and write.
#ifndef KEEL_COLLECTIVES_TRANSFER_RANGES_H_
#define KEEL_COLLECTIVES_TRANSFER_RANGES_H_

#include <cstdint>
#include <map>
#include <vector>

#include "collectives/operation.h"
#include "core/status.h"

namespace keel {

// Compares two messages of one group, which run in any order. Fails and names both if one receives
// where the other sends or receives.
Status check_apart(const Transfer& one, const Transfer& other);

// Keeps all added messages disjoint, so that a new message is compared with all of them in
// logarithmic time. For one thread.
class TransferRanges {
 public:
  // Adds all of |added|, which are disjoint from each other, or none. |earlier|: the messages added
  // before.
  Status add(const std::vector<Transfer>& earlier, const std::vector<Transfer>& added);

 private:
  // Ranges of addresses that neither touch nor overlap: the begin of each, and its end.
  class Union {
   public:
    void add(uintptr_t begin, uintptr_t end);
    bool overlaps(uintptr_t begin, uintptr_t end) const;

   private:
    std::map<uintptr_t, uintptr_t> ends_;
  };

  Union sent_;
  Union received_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_TRANSFER_RANGES_H_
