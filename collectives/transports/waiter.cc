// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/waiter.h"

namespace keel {

namespace {

// Spin budget before a wait parks. Dedicated: as long as parking and being woken may cost, 5 us on
// bare metal and 50 us in a virtual machine, whose idle cores must be called back. Oversubscribed:
// number of sched_yield() calls, some 40 us when no thread takes the core; a call whose core
// another thread takes lasts as long as that thread's turn.
constexpr int64_t kSpinNs = 50'000;
constexpr uint32_t kYields = 200;

}  // namespace

Waiter::Waiter(const WakeWords& words, AbortRecord& failures, bool oversubscribed)
    : words_(words),
      failures_(&failures),
      spins_(oversubscribed ? kYields : pauses_in(kSpinNs)),
      oversubscribed_(oversubscribed) {}

Status Waiter::check(WaitContext& wait_context) const {
  if (failures_->failed()) return failures_->status();
  if (wait_context.cancelled()) return wait_context.given_up();
  if (wait_context.deadline().passed()) return failure(KEEL_TIMED_OUT, "the deadline has passed");
  return {};
}

}  // namespace keel
