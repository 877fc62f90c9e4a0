// SPDX-License-Identifier: Apache-2.0
// Memory read and written by the messages of one group.
#ifndef KEEL_COLLECTIVES_TRANSFER_RANGES_H_
#define KEEL_COLLECTIVES_TRANSFER_RANGES_H_

#include <cstdint>
#include <map>
#include <vector>

#include "collectives/operation.h"
#include "core/status.h"

namespace keel {

// Compares two messages of one group, with no order between them. Fails and names both messages if
// one receives where the other sends or receives.
Status check_apart(const Transfer& one, const Transfer& other);

// Keeps all added messages disjoint, so comparing a new message with all takes logarithmic time.
// For one thread.
class TransferRanges {
 public:
  // Adds all of |added|, each disjoint from the rest, or on failure none. |earlier|: the messages
  // added before.
  Status add(const std::vector<Transfer>& earlier, const std::vector<Transfer>& added);

 private:
  // Address ranges without contact or overlap: the begin and the end of each.
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
