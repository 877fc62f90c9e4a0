// SPDX-License-Identifier: Apache-2.0
// Calls of one thread that are enqueued together.
#ifndef KEEL_COLLECTIVES_GROUP_CALL_H_
#define KEEL_COLLECTIVES_GROUP_CALL_H_

#include <atomic>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/operation.h"
#include "collectives/transfer_ranges.h"
#include "core/ref_counted.h"
#include "core/status.h"
#include "core/stream.h"

namespace keel {

// The group that the calling thread is in. One a thread.
class GroupCall {
 public:
  static GroupCall& current();

  ~GroupCall() {
    if (is_open()) open_.fetch_sub(1, std::memory_order_relaxed);
  }

  bool is_open() const { return depth_ != 0; }
  // Whether any thread is in one, for a look that costs one load.
  static bool any_open() { return open_.load(std::memory_order_relaxed) != 0; }
  void start() {
    if (depth_++ == 0) open_.fetch_add(1, std::memory_order_relaxed);
  }
  // Checks the call as if it were enqueued, and keeps it for the end; refuses a message that
  // overlaps another one of the group.
  Status add(const Ref<Communicator>& communicator, Request request, const Ref<Stream>& stream);
  // At the outermost end: enqueues everything, the messages of one communicator and stream as
  // one operation. All that can be enqueued is; the first failure is returned.
  Status end();

 private:
  struct Call {
    Ref<Communicator> communicator;
    Request request;
    Ref<Stream> stream;
    TransferRanges ranges;
  };

  inline static std::atomic<uint32_t> open_{0};

  uint32_t depth_ = 0;
  std::vector<Call> calls_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_GROUP_CALL_H_
