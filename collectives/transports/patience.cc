#include "collectives/transports/patience.h"

#include <algorithm>

namespace keel {

Status Patience::wait_slice(const Ref<EventRecord>& record) {
  return record->wait(Deadline::after(std::min(kSliceNs, deadline().remaining_ns())));
}

}  // namespace keel
