// SPDX-License-Identifier: Apache-2.0
// Pending gates of one stream: gates opened by a gate owner (GateOwner), not by the user.
#ifndef KEEL_CORE_PENDING_GATES_H_
#define KEEL_CORE_PENDING_GATES_H_

#include <mutex>
#include <vector>

#include "core/deadline.h"
#include "core/gate.h"
#include "core/ref_counted.h"
#include "core/status.h"

namespace keel {

// A collective reads and writes the user's buffers until it opens the gate left on the user's
// stream. A failed stream drops its gates without notice to the collective. PendingGates therefore
// keeps the gates for callers that must know when the stream's memory belongs to the user again.
// Open gates are released to make room for new ones. Thread-safe.
class PendingGates {
 public:
  // Reserves room for a gate, so that add() cannot run out of memory.
  void reserve();
  void add(const Ref<Gate>& gate);
  bool all_open() const;
  // Waits until all gates are open, and helps their owners. KEEL_TIMED_OUT names a gate still
  // closed.
  Status wait(const Deadline& deadline);
  // Returns the sum of Gate::longest_ns() over the gates.
  int64_t longest_ns() const;
  void clear();

 private:
  mutable std::mutex mutex_;  // leaf lock
  std::vector<Ref<Gate>> gates_;
};

}  // namespace keel

#endif  // KEEL_CORE_PENDING_GATES_H_
