// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/wait_context.h"

#include "collectives/transports/abort_record.h"
#include "collectives/transports/wait_policy.h"
#include "core/stream.h"

namespace keel {

Status WaitContext::wait_slice(const Ref<EventRecord>& record, bool* out_is_over) {
  Status status = record->wait(Deadline::after(WaitPolicy::slice_ns(deadline())));
  *out_is_over = status.code() != KEEL_TIMED_OUT;
  if (*out_is_over) return status;
  // A record that failed at its own deadline also returns KEEL_TIMED_OUT; query() distinguishes it.
  WakeList wake;
  Status known = record->query_by_host(wake);
  advance_all(wake);
  *out_is_over = known.code() != KEEL_NOT_READY;
  return *out_is_over ? known : status;
}

Status WaitContext::given_up() const {
  if (insiders::are_cut_off()) return insiders::cut_off();
  return failure(KEEL_ABORTED, "the communicator was aborted");
}

bool WaitContext::has_whole_failed() const {
  return whole_failures_->failed();
}

}  // namespace keel
