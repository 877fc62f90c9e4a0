// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/patience.h"

#include <algorithm>

#include "collectives/transports/control_segment.h"

namespace keel {

Status Patience::wait_slice(const Ref<EventRecord>& record) {
  return record->wait(Deadline::after(std::min(kSliceNs, deadline().remaining_ns())));
}

bool Patience::has_whole_failed() const {
  return whole_segment_->failed();
}

}  // namespace keel
