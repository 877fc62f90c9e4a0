// SPDX-License-Identifier: Apache-2.0
// The group of calls opened by a thread and not closed yet.
#ifndef KEEL_CORE_OPEN_GROUP_H_
#define KEEL_CORE_OPEN_GROUP_H_

#include <atomic>
#include <cstdint>

#include "core/status.h"

namespace keel {

// One per thread. OpenGroup lives below the collectives, since every call that waits must check the
// group: the awaited work would start only after the group's end, or was never sent because the end
// is missing.
class OpenGroup {
 public:
  static OpenGroup& current();
  // Returns whether any thread has an open group; costs one load.
  static bool any() { return open_.load(std::memory_order_relaxed) != 0; }
  // For calls that wait: KEEL_FAILED_PRECONDITION, with the number of calls held back, if the
  // calling thread has an open group.
  static Status check_wait() { return any() ? current().check_closed() : Status(); }

  ~OpenGroup() {
    if (is_open()) open_.fetch_sub(1, std::memory_order_relaxed);
  }

  bool is_open() const { return depth_ != 0; }
  void start() {
    if (depth_++ == 0) open_.fetch_add(1, std::memory_order_relaxed);
  }
  void count_call() { ++calls_; }
  // Sets |*out_is_outermost| if the outermost group ended; KEEL_INVALID_ARGUMENT if none is open.
  Status end(bool* out_is_outermost);

 private:
  Status check_closed() const;

  inline static std::atomic<uint32_t> open_{0};

  uint32_t depth_ = 0;
  uint32_t calls_ = 0;
};

}  // namespace keel

#endif  // KEEL_CORE_OPEN_GROUP_H_
