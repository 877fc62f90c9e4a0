// SPDX-License-Identifier: Apache-2.0
// The group of calls that a thread has begun and not ended.
#ifndef KEEL_CORE_OPEN_GROUP_H_
#define KEEL_CORE_OPEN_GROUP_H_

#include <atomic>
#include <cstdint>

#include "core/status.h"

namespace keel {

// One a thread. Here, below the collectives that are kept in it, since whoever waits asks: what is
// waited for would come only after the group's end, or was never sent because that is missing.
class OpenGroup {
 public:
  static OpenGroup& current();
  // Whether any thread is in one, for a look that costs one load.
  static bool any() { return open_.load(std::memory_order_relaxed) != 0; }
  // For calls that wait: KEEL_FAILED_PRECONDITION, with how many calls were kept, where the calling
  // thread is in a group.
  static Status check_wait() { return any() ? current().check_closed() : Status(); }

  ~OpenGroup() {
    if (is_open()) open_.fetch_sub(1, std::memory_order_relaxed);
  }

  bool is_open() const { return depth_ != 0; }
  void start() {
    if (depth_++ == 0) open_.fetch_add(1, std::memory_order_relaxed);
  }
  void count_call() { ++calls_; }
  // True for the outermost one; KEEL_INVALID_ARGUMENT where none is open.
  Status end(bool* out_is_outermost);

 private:
  Status check_closed() const;

  inline static std::atomic<uint32_t> open_{0};

  uint32_t depth_ = 0;
  uint32_t calls_ = 0;
};

}  // namespace keel

#endif  // KEEL_CORE_OPEN_GROUP_H_
