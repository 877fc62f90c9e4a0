// SPDX-License-Identifier: Apache-2.0
// Messages to other hosts, while the rank waits for ranks of its own.
#ifndef KEEL_COLLECTIVES_HOSTS_WIRE_WORK_H_
#define KEEL_COLLECTIVES_HOSTS_WIRE_WORK_H_

#include <algorithm>
#include <cstdint>

#include "collectives/hosts/wire_wait.h"
#include "collectives/transports/wait_context.h"
#include "collectives/transports/wait_policy.h"
#include "core/status.h"

namespace keel {

// Moves the wires and |Moving|, which has is_over() and advance(WireWait&). A rank that parks for
// one kind of message is not woken by the other, so after a look in vain it parks for 50 us, and
// each time for twice as long: a message waits no longer than the wait already has, and a
// millisecond at most. For one thread.
template <typename Moving>
class WireWork final : public BackgroundWork {
 public:
  WireWork(Moving& moving, WireWait& wait) : moving_(moving), wait_(wait) {}

  Status advance() override {
    if (!failure_.ok()) return failure_;
    if (moving_.is_over()) {
      slice_ns_ = WaitPolicy::kSliceNs;
    } else {
      slice_ns_ = wait_.poll() ? 0 : std::clamp(slice_ns_ * 2, kLeastNs, kMostNs);
      failure_ = moving_.advance(wait_);
    }
    // The work beside the whole operation, in whose place this is.
    if (failure_.ok()) failure_ = wait_.context().advance_work();
    return failure_;
  }
  int64_t slice_ns() const override { return slice_ns_; }
  // The first failure, also if the wait that called advance() has succeeded at the same time.
  const Status& failure() const { return failure_; }

 private:
  static constexpr int64_t kLeastNs = 50'000;
  static constexpr int64_t kMostNs = 1'000'000;

  Moving& moving_;
  WireWait& wait_;
  int64_t slice_ns_ = 0;
  Status failure_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_HOSTS_WIRE_WORK_H_
