// SPDX-License-Identifier: Apache-2.0
// The memory that the messages of one group read and write.
#ifndef KEEL_COLLECTIVES_TRANSFER_RANGES_H_
#define KEEL_COLLECTIVES_TRANSFER_RANGES_H_

#include <cstdint>
#include <map>
#include <vector>

#include "collectives/operation.h"
#include "core/status.h"

namespace keel {

// Of two messages of one group, that go on in any order. Refused, and both named, if one
// receives where the other sends or receives.
Status check_apart(const Transfer& one, const Transfer& other);

// All messages that were added are apart, so that one more is compared in logarithmic time with
// all that are there. For one thread.
class TransferRanges {
 public:
  // |earlier|: those that were added. |added| are apart from each other; all of them are added,
  // or none is.
  Status add(const std::vector<Transfer>& earlier, const std::vector<Transfer>& added);

 private:
  // Ranges of addresses that neither touch nor overlap: where each begins, and its end.
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
