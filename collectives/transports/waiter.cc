// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/waiter.h"

namespace keel {

Status Waiter::check(WaitContext& wait_context) const {
  if (failures_->failed()) return failures_->status();
  if (wait_context.cancelled()) return wait_context.given_up();
  if (wait_context.deadline().passed()) return failure(KEEL_TIMED_OUT, "the deadline has passed");
  return wait_context.advance_work();
}

}  // namespace keel
