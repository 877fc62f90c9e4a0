// SPDX-License-Identifier: Apache-2.0
#include "core/open_group.h"

namespace keel {

OpenGroup& OpenGroup::current() {
  thread_local OpenGroup group;
  return group;
}

Status OpenGroup::end(bool* out_is_outermost) {
  *out_is_outermost = false;
  if (depth_ == 0) {
    return failure(KEEL_INVALID_ARGUMENT, "keel_group_end without a keel_group_start");
  }
  if (--depth_ != 0) return {};
  open_.fetch_sub(1, std::memory_order_relaxed);
  calls_ = 0;
  *out_is_outermost = true;
  return {};
}

Status OpenGroup::check_closed() const {
  if (!is_open()) return {};
  return failure(KEEL_FAILED_PRECONDITION,
                 "keel_group_start was called on this thread, and keel_group_end was not: {} calls "
                 "are kept until then",
                 calls_);
}

}  // namespace keel
