// SPDX-License-Identifier: Apache-2.0
// How to read the result of Stream::drain: whether work may still run.
#ifndef KEEL_CORE_DRAIN_H_
#define KEEL_CORE_DRAIN_H_

#include <cstdint>

#include "core/status.h"

namespace keel {

// How long the runtime waits for a failed internal stream to recover before it uses another. An
// empty stream takes no time if the plugin synchronizes, else as long as one event takes on the
// chip.
inline constexpr int64_t kQuickRecoveryNs = 1'000'000;

// Whether work may still run after a drain that returned |drained|: the deadline passed, no memory
// was left for an event, or the stream does not accept an event now.
inline bool may_still_run(const Status& drained) {
  const keel_status code = drained.code();
  return code == KEEL_TIMED_OUT || code == KEEL_OUT_OF_MEMORY || code == KEEL_FAILED_PRECONDITION;
}

// Maps the status of finished work to one for which may_still_run() is false; KEEL_TIMED_OUT passes
// unchanged, as the work has not ended. Callers that drain only need to know that the work ended;
// its own status is reported elsewhere.
inline Status known_over(Status ended) {
  if (!may_still_run(ended) || ended.code() == KEEL_TIMED_OUT) return ended;
  return Status(KEEL_ABORTED, ended.text());
}

}  // namespace keel

#endif  // KEEL_CORE_DRAIN_H_
