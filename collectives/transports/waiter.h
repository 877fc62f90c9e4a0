// SPDX-License-Identifier: Apache-2.0
// Waits of a rank for its peers on one host.
#ifndef KEEL_COLLECTIVES_TRANSPORTS_WAITER_H_
#define KEEL_COLLECTIVES_TRANSPORTS_WAITER_H_

#include <atomic>
#include <cstdint>

#include "collectives/transports/abort_record.h"
#include "collectives/transports/wait_context.h"
#include "collectives/transports/wait_policy.h"
#include "collectives/transports/wake_words.h"
#include "collectives/transports/yield_guard.h"
#include "core/status.h"

namespace keel {

// Spins, then parks, until a condition holds or the communicator fails. Copied freely, like the
// words. Thread-safe.
class Waiter {
 public:
  Waiter(const WakeWords& words, AbortRecord& failures, const WaitPolicy& policy)
      : words_(words), failures_(&failures), policy_(policy) {}

  const WaitPolicy& policy() const { return policy_; }
  const WakeWords& words() const { return words_; }
  AbortRecord& failures() const { return *failures_; }

  // Polls |ready|() for |turns| turns at most. Returns whether it has returned true.
  template <typename Ready>
  [[gnu::always_inline]] bool spin(uint32_t turns, const Ready& ready) const {
    return policy_.oversubscribed() ? spin_by_yields(turns, ready) : spin_by_pauses(turns, ready);
  }

  // Waits until |ready|() returns true, evaluated again after each wake-up of |word|. Fails if the
  // communicator fails, an awaited rank is absent, |wait_context| is cancelled, its deadline passes
  // or its work fails; the failure at the deadline names no rank. |missing|(rank): whether |ready|
  // waits for that rank. |look|() is called now and then while the thread is parked, and may abort.
  template <typename Ready, typename Missing, typename Look>
  Status await(std::atomic<uint32_t>& word, const Ready& ready, const Missing& missing,
               const Look& look, WaitContext& wait_context) const;
  template <typename Ready, typename Missing>
  Status await(std::atomic<uint32_t>& word, const Ready& ready, const Missing& missing,
               WaitContext& wait_context) const {
    return await(
        word, ready, missing, [] {}, wait_context);
  }

 private:
  template <typename Ready>
  [[gnu::always_inline]] static bool spin_by_pauses(uint32_t turns, const Ready& ready);
  template <typename Ready>
  [[gnu::always_inline]] bool spin_by_yields(uint32_t turns, const Ready& ready) const;
  // Returns the reason to stop waiting, if any.
  Status check(WaitContext& wait_context) const;

  WakeWords words_;
  AbortRecord* failures_;
  WaitPolicy policy_;
};

// Inlined, a loop for each mode: a call more makes an all_to_all of 512 bytes between two
// processes, 0.33 us, slower by up to 0.06 us.
template <typename Ready>
inline bool Waiter::spin_by_pauses(uint32_t turns, const Ready& ready) {
  for (uint32_t turn = 0; turn < turns; ++turn) {
    if (ready()) return true;
    WaitPolicy::pause();
    // Even with a core per rank, this thread may share its core with the thread it waits for.
    if (turn % 256 == 255) YieldGuard::of_thread().yield(/*turn=*/0);
  }
  return false;
}

template <typename Ready>
inline bool Waiter::spin_by_yields(uint32_t turns, const Ready& ready) const {
  if (ready()) return true;
  YieldGuard& guard = YieldGuard::of_thread();
  for (uint32_t turn = 0; turn < turns; ++turn) {
    // Before the guard has learned, each of 200 yields may last as long as another program's turn:
    // a failure, which the parking thread finds, ends them.
    if (failures_->failed() || !guard.yield(turn)) return false;
    if (ready()) return true;
  }
  return false;
}

template <typename Ready, typename Missing, typename Look>
Status Waiter::await(std::atomic<uint32_t>& word, const Ready& ready, const Missing& missing,
                     const Look& look, WaitContext& wait_context) const {
  SpinBudget& budget = wait_context.spin();
  if (spin(budget.turns(policy_.turns_before_park()), ready)) {
    budget.note(true);
    return {};
  }
  budget.note(ready());
  while (true) {
    const uint32_t seen = word.load(std::memory_order_acquire);
    words_.begin_sleep();
    const bool is_ready = ready();
    if (!is_ready && !failures_->failed() && !failures_->is_any_absent(missing)) {
      WakeWords::park(word, seen, wait_context.next_look());
    }
    words_.end_sleep();
    if (is_ready || failures_->abort_for_absent(ready, missing)) return {};
    look();
    const Status status = check(wait_context);
    if (ready()) return {};
    if (!status.ok()) return status;
  }
}

}  // namespace keel

#endif  // KEEL_COLLECTIVES_TRANSPORTS_WAITER_H_
