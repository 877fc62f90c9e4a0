// SPDX-License-Identifier: Apache-2.0
// What the end of a wait for a stream's work tells: Stream::drain, and those who call it.
#ifndef KEEL_CORE_DRAIN_H_
#define KEEL_CORE_DRAIN_H_

#include <cstdint>

#include "core/status.h"

namespace keel {

// How long a stream of the runtime's own that has failed is waited for before another takes its
// place. An empty one needs no time where the plugin synchronizes, and else as long as the chip
// takes for one event.
inline constexpr int64_t kQuickRecoveryNs = 1'000'000;

// Whether work may still run for all that |drained| says: it was not over in time, or could not
// be asked for, as there was no memory for an event, or the stream takes none now.
inline bool may_still_run(const Status& drained) {
  const keel_status code = drained.code();
  return code == KEEL_TIMED_OUT || code == KEEL_OUT_OF_MEMORY || code == KEEL_FAILED_PRECONDITION;
}

// How work ended that was waited for, in a code of which may_still_run() is false. Who drains
// wants to know that it is over; how it ended is told elsewhere.
inline Status known_over(Status ended) {
  if (!may_still_run(ended) || ended.code() == KEEL_TIMED_OUT) return ended;
  return Status(KEEL_ABORTED, ended.text());
}

}  // namespace keel

#endif  // KEEL_CORE_DRAIN_H_
