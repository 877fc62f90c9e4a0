// SPDX-License-Identifier: Apache-2.0
// The gates of one stream that somebody other than the user is going to open.
#ifndef KEEL_CORE_KEPT_GATES_H_
#define KEEL_CORE_KEPT_GATES_H_

#include <mutex>
#include <vector>

#include "core/deadline.h"
#include "core/gate.h"
#include "core/ref_counted.h"
#include "core/status.h"

namespace keel {

// A collective reads and writes the user's buffers until it opens the gate that it has left on
// their stream. A stream that fails drops its gates, and the collective does not know: so they
// are remembered here, for whoever has to know when the stream's memory is the user's again.
// Gates that are open are let go of when there is no room for another. Thread-safe.
class KeptGates {
 public:
  // Makes room for a gate, so that add() cannot run out of memory.
  void reserve();
  void add(const Ref<Gate>& gate);
  bool all_open() const;
  // Waits until all are open, and helps with it. KEEL_TIMED_OUT names one that is not.
  Status wait(const Deadline& deadline);
  void clear();

 private:
  mutable std::mutex mutex_;  // a leaf
  std::vector<Ref<Gate>> gates_;
};

}  // namespace keel

#endif  // KEEL_CORE_KEPT_GATES_H_
