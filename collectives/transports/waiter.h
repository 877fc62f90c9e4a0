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

  // Whether a spinning wait parks at once, where the thread finds the failure. Oversubscribed: up
  // to 200 yields may follow, each as long as another program's turn until YieldGuard has learned.
  bool ends_spin() const { return policy_.oversubscribed() && failures_->failed(); }

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
  // Returns the reason to stop waiting, if any.
  Status check(WaitContext& wait_context) const;

  WakeWords words_;
  AbortRecord* failures_;
  WaitPolicy policy_;
};

template <typename Ready, typename Missing, typename Look>
Status Waiter::await(std::atomic<uint32_t>& word, const Ready& ready, const Missing& missing,
                     const Look& look, WaitContext& wait_context) const {
  SpinBudget& spin = wait_context.spin();
  const uint32_t turns = spin.turns(policy_.turns_before_park());
  for (uint32_t turn = 0; turn < turns; ++turn) {
    if (ready()) {
      spin.note(true);
      return {};
    }
    if (ends_spin() || !policy_.relax(turn)) break;
  }
  spin.note(ready());
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
