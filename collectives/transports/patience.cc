// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/patience.h"

#include <algorithm>

#include "collectives/transports/control_segment.h"

namespace keel {

Status Patience::wait_slice(const Ref<EventRecord>& record) {
  return record->wait(Deadline::after(std::min(kSliceNs, deadline().remaining_ns())));
}

Status Patience::given_up() const {
  if (insiders::are_cut_off()) return insiders::cut_off();
  return failure(KEEL_ABORTED, "the communicator was aborted");
}

bool Patience::has_whole_failed() const {
  return whole_segment_->failed();
}

}  // namespace keel
