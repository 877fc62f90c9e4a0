// SPDX-License-Identifier: Apache-2.0
// Tracks the threads inside Keel, for which keel_shutdown waits.
#ifndef KEEL_CORE_INSIDERS_H_
#define KEEL_CORE_INSIDERS_H_

#include <atomic>
#include <cstdint>

#include "core/api_state.h"
#include "core/deadline.h"
#include "core/epoch.h"
#include "core/status.h"

namespace keel {

// Marks the calling thread as inside a C function. The function reads g_api_state after
// construction: either the function sees that Keel is shutting down, or keel_shutdown sees the
// thread. The mark is a plain store, as in EpochSection. May be nested, when Keel calls the user
// and the user calls Keel. An EpochSection counts as a mark as well, and short calls need no
// InsideCall.
class InsideCall {
 public:
  // Stores |name|, a static string for keel_shutdown's report of unfinished calls. Throws
  // std::bad_alloc.
  explicit InsideCall(const char* name) {
    epoch::EpochRecord* const epoch_record = epoch::own_slot();
    if (epoch_record == nullptr) [[unlikely]] {
      epoch_record_ = enter_slowly(name);
    } else if (epoch_record->call.load(std::memory_order_relaxed) == nullptr) {
      epoch_record_ = epoch_record;
      epoch_record->call.store(name, std::memory_order_release);
      std::atomic_signal_fence(std::memory_order_seq_cst);
    }
  }
  ~InsideCall() {
    if (epoch_record_ != nullptr) epoch_record_->call.store(nullptr, std::memory_order_release);
  }
  InsideCall(const InsideCall&) = delete;
  InsideCall& operator=(const InsideCall&) = delete;

 private:
  static epoch::EpochRecord* enter_slowly(const char* name);

  epoch::EpochRecord* epoch_record_ = nullptr;  // NULL: nested in another call
};

// While alive, marks the calling thread, the user's or Keel's own, as inside a user function that
// Keel has called.
class UserCallback {
 public:
  UserCallback();
  ~UserCallback();
  UserCallback(const UserCallback&) = delete;
  UserCallback& operator=(const UserCallback&) = delete;
};

// While alive, waits of the calling thread inside a C function also end once |cancelled| is set, as
// keel_shutdown ends them. |cancelled| must outlive the object and all deadlines made meanwhile.
class CancelScope {
 public:
  explicit CancelScope(const std::atomic<bool>& cancelled);
  ~CancelScope();
  CancelScope(const CancelScope&) = delete;
  CancelScope& operator=(const CancelScope&) = delete;
};

namespace insiders {

// Returns the flag of the calling thread's CancelScope, or NULL.
const std::atomic<bool>* cancel_flag() noexcept;
// Returns whether the calling thread is inside a C function.
bool is_inside() noexcept;
// Returns whether the calling thread, the user's or Keel's own, is in a function that Keel has
// called.
bool is_in_callback() noexcept;
// Returns whether the calling thread is inside a C function and keel_shutdown waits for the thread,
// or its CancelScope is cancelled: the call must give up its wait. Keel's own threads end in
// another way.
inline bool are_cut_off() noexcept {
  const std::atomic<bool>* const cancelled = cancel_flag();
  if (cancelled != nullptr && cancelled->load(std::memory_order_acquire)) return true;
  return g_api_state.load(std::memory_order_acquire) == ApiState::kEnding && is_inside();
}
// Failure of a call that was cut off: KEEL_ABORTED, with kCutOff after keel_shutdown.
inline constexpr const char* kCutOff = "Keel was shut down";
Status cut_off();

// Deadline of a wait; within a C function the deadline also passes when keel_shutdown is called, or
// when the CancelScope is cancelled.
inline Deadline deadline(int64_t timeout_ns) {
  return is_inside() ? Deadline::after_or_shutdown(timeout_ns, cancel_flag())
                     : Deadline::after(timeout_ns);
}

// Called by keel_shutdown once g_api_state is kEnding. Blocks until no thread is inside, or returns
// KEEL_TIMED_OUT at |deadline| and names the calls that have not ended.
Status await(const Deadline& deadline);

}  // namespace insiders

}  // namespace keel

#endif  // KEEL_CORE_INSIDERS_H_
