// SPDX-License-Identifier: Apache-2.0
// Waits for messages of a rank's wires.
#ifndef KEEL_COLLECTIVES_HOSTS_WIRE_WAIT_H_
#define KEEL_COLLECTIVES_HOSTS_WIRE_WAIT_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "collectives/bootstrap/host_bootstrap.h"
#include "collectives/hosts/poll_budget.h"
#include "collectives/transports/abort_record.h"
#include "collectives/transports/wait_context.h"
#include "collectives/transports/wait_policy.h"
#include "collectives/transports/wire.h"
#include "core/status.h"

namespace keel {

// Extra time that ranks of remote hosts wait for a host, compared with the host's own ranks: at the
// deadline, the host's ranks name the missing rank before a remote rank could name the rank that
// waits.
inline constexpr int64_t kHostGraceNs = 1'000'000'000;

// Extra time for each step that a rank is in: a rank whose peer sends nothing in a step because it
// waits itself, in an earlier step, leaves it to that peer to name the missing rank. Together less
// than kHostGraceNs.
inline constexpr int64_t kStepGraceNs = 300'000'000;
inline constexpr uint32_t kMostStepGraces = 3;

// Moves the wires until a condition holds, the wires or the communicator have failed, or the
// operation's deadline passes. For one thread.
class WireWait {
 public:
  WireWait(WireSet& wires, HostSession& session, const AbortRecord& failures, PollBudget& polls,
           WaitContext& wait_context)
      : wires_(wires),
        session_(session),
        failures_(failures),
        polls_(polls),
        wait_context_(wait_context) {
    wires_.set_deadline(wait_context.deadline());
  }

  WaitContext& context() { return wait_context_; }
  // The step of the algorithm whose messages until() waits for.
  void set_step(uint32_t step) { step_ = step; }
  // Whether the last until() has failed: the operation ended between hosts, not inside one. False
  // where a wire failed, which ends its requests: see WireSet::failure().
  bool has_failed() const { return is_waiting_; }

  // Moves what can be moved without waiting, while the thread waits for something else. Returns
  // whether something has moved.
  bool poll() {
    if (wires_.progress()) return true;
    park(/*timeout_ns=*/0);  // looks for silent hosts
    return false;
  }

  // Returns KEEL_OK once |is_done|() is true. KEEL_TIMED_OUT names no rank.
  template <typename IsDone>
  Status until(const IsDone& is_done) {
    uint32_t idle = 0;
    PollBudget::Clock::time_point begin;
    is_waiting_ = true;
    while (!is_done()) {
      if (wires_.progress()) {
        if (std::exchange(idle, 0) != 0) polls_.note_wait(begin);
        continue;
      }
      KEEL_RETURN_IF_ERROR(check());
      if (idle == 0) begin = PollBudget::Clock::now();
      idle += PollBudget::relax();
      if (idle < polls_.polls()) continue;
      park(WaitPolicy::slice_ns(grace_ ? *grace_ : wait_context_.deadline()));
    }
    is_waiting_ = false;
    return {};
  }

 private:
  void park(int64_t timeout_ns) {
    wires_.park(timeout_ns);
    if (session_.has_outlived_server()) session_.look_for(wires_.unconnected());
  }
  Status check() {
    if (failures_.failed()) return failures_.status();
    KEEL_RETURN_IF_ERROR(wires_.failure());
    if (wait_context_.cancelled()) return wait_context_.given_up();
    const Deadline& deadline = wait_context_.deadline();
    if (!deadline.passed()) return {};
    if (!grace_) grace_ = Deadline::after(std::min(step_, kMostStepGraces) * kStepGraceNs);
    if (!deadline.is_cut_off() && !grace_->passed()) return {};
    return {KEEL_TIMED_OUT, "the deadline has passed"};
  }

  WireSet& wires_;
  HostSession& session_;
  const AbortRecord& failures_;
  PollBudget& polls_;
  WaitContext& wait_context_;
  bool is_waiting_ = false;
  uint32_t step_ = 0;
  std::optional<Deadline> grace_;  // once the deadline has passed
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_HOSTS_WIRE_WAIT_H_
