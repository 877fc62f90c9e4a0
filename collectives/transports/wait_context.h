// SPDX-License-Identifier: Apache-2.0
// Deadline, cancellation and spin budget of one collective operation.
#ifndef KEEL_COLLECTIVES_TRANSPORTS_WAIT_CONTEXT_H_
#define KEEL_COLLECTIVES_TRANSPORTS_WAIT_CONTEXT_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>

#include "collectives/transports/spin_budget.h"
#include "core/deadline.h"
#include "core/event.h"
#include "core/insiders.h"
#include "core/status.h"

namespace keel {

class AbortRecord;

// Work that a thread goes on with while it waits for other ranks.
class BackgroundWork {
 public:
  // Does what can be done without waiting for other ranks; may wait for copies of the rank's own
  // device. A failure ends the thread's wait, unless the wait succeeds at the same time.
  virtual Status advance() = 0;
  // How long the thread may park before the next advance().
  virtual int64_t slice_ns() const = 0;

 protected:
  ~BackgroundWork() = default;
};

// Wait context of one operation: waits end at the deadline or on cancellation. The clock starts
// with the first wait that does not succeed at once: reading the clock costs 25 ns, as much as the
// remaining bookkeeping of a small operation. For one thread.
class WaitContext {
 public:
  WaitContext(int64_t timeout_ns, const std::atomic<bool>& cancelled)
      : timeout_ns_(timeout_ns), cancelled_(cancelled) {}
  // Context for a part of |whole|'s operation among fewer ranks: also cancelled once |failures|,
  // the record of all ranks, holds a failure. |grace_ns|: the part may take so much longer.
  WaitContext(WaitContext& whole, const AbortRecord& failures, int64_t grace_ns = 0)
      : timeout_ns_(whole.deadline().remaining_ns() + grace_ns),
        cancelled_(whole.cancelled_),
        whole_failures_(&failures),
        work_(whole.work_) {}
  // Context for a part of |whole|'s operation in which the thread goes on with |work|, each time it
  // has parked.
  WaitContext(WaitContext& whole, BackgroundWork& work)
      : timeout_ns_(whole.timeout_ns_),
        cancelled_(whole.cancelled_),
        whole_failures_(whole.whole_failures_),
        work_(&work),
        deadline_(whole.deadline()) {}

  // Whether the operation was cancelled, or keel_shutdown cuts off its thread. Waits check after
  // each slice.
  bool cancelled() const {
    return cancelled_.load(std::memory_order_relaxed) ||
           (whole_failures_ != nullptr && has_whole_failed()) || insiders::are_cut_off();
  }
  // Returns the failure of a cancelled wait: KEEL_ABORTED.
  Status given_up() const;
  // Time from the first call of deadline() to the deadline.
  int64_t timeout_ns() const { return timeout_ns_; }
  const Deadline& deadline() {
    if (!deadline_) deadline_ = Deadline::after(timeout_ns_);
    return *deadline_;
  }
  // When a thread that parks now looks again, or earlier.
  Deadline next_look() {
    if (work_ == nullptr) return deadline();
    return Deadline::after(std::min(work_->slice_ns(), deadline().remaining_ns()));
  }
  // Advances the work beside the wait, if any.
  Status advance_work() {
    if (work_ == nullptr) return {};
    Status status = work_->advance();
    has_work_failed_ = !status.ok();
    return status;
  }
  // Whether the work, and not the wait, has failed.
  bool has_work_failed() const { return has_work_failed_; }
  // Spin budget of the operation's waits.
  SpinBudget& spin() { return spin_; }

  // Waits for |record|, which may be work that the user holds behind a gate, until it ends, the
  // deadline passes, the operation is cancelled or |is_given_up|() returns true.
  template <typename GivenUp>
  Status wait(const Ref<EventRecord>& record, const GivenUp& is_given_up) {
    while (true) {
      bool is_over = false;
      Status status = wait_slice(record, &is_over);
      if (is_over || deadline().passed()) return status;
      if (cancelled() || is_given_up()) {
        return given_up();
      }
    }
  }
  Status wait(const Ref<EventRecord>& record) {
    return wait(record, [] { return false; });
  }

 private:
  // |*out_is_over|: whether the returned status is the record's.
  Status wait_slice(const Ref<EventRecord>& record, bool* out_is_over);
  bool has_whole_failed() const;

  const int64_t timeout_ns_;
  const std::atomic<bool>& cancelled_;
  const AbortRecord* whole_failures_ = nullptr;
  BackgroundWork* const work_ = nullptr;
  bool has_work_failed_ = false;
  std::optional<Deadline> deadline_;
  SpinBudget spin_{/*most_halvings=*/16};
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_TRANSPORTS_WAIT_CONTEXT_H_
