// SPDX-License-Identifier: Apache-2.0
// The threads that are inside Keel, for which keel_shutdown waits.
#ifndef KEEL_CORE_INSIDERS_H_
#define KEEL_CORE_INSIDERS_H_

#include <atomic>
#include <cstdint>

#include "core/api_state.h"
#include "core/deadline.h"
#include "core/epoch.h"
#include "core/status.h"

namespace keel {

// While one lives, the calling thread is inside a C function. The function looks at g_api_state
// afterwards: either it sees that Keel ends, or keel_shutdown sees the thread, which marks itself
// with a plain store as an EpochSection does. May be nested, where Keel calls the user, who calls
// Keel. An EpochSection counts as well, and short calls have nothing else.
class InsideCall {
 public:
  // |name| is static: keel_shutdown names the calls that do not end. Throws std::bad_alloc.
  explicit InsideCall(const char* name) {
    epoch::Participant* const participant = epoch::seated();
    if (participant == nullptr) [[unlikely]] {
      participant_ = enter_slowly(name);
    } else if (participant->call.load(std::memory_order_relaxed) == nullptr) {
      participant_ = participant;
      participant->call.store(name, std::memory_order_release);
      std::atomic_signal_fence(std::memory_order_seq_cst);
    }
  }
  ~InsideCall() {
    if (participant_ != nullptr) participant_->call.store(nullptr, std::memory_order_release);
  }
  InsideCall(const InsideCall&) = delete;
  InsideCall& operator=(const InsideCall&) = delete;

 private:
  static epoch::Participant* enter_slowly(const char* name);

  epoch::Participant* participant_ = nullptr;  // NULL: nested in another call
};

// While one lives, the calling thread, which may be one of Keel's own, is in a function of the
// user's that Keel has called.
class UserCallback {
 public:
  UserCallback();
  ~UserCallback();
  UserCallback(const UserCallback&) = delete;
  UserCallback& operator=(const UserCallback&) = delete;
};

namespace insiders {

// Whether the calling thread is inside a C function.
bool is_inside() noexcept;
// Whether the calling thread is in a function that Keel has called, on whichever thread.
bool is_in_callback() noexcept;
// Whether the calling thread is inside a C function that keel_shutdown waits for: it gives up what
// it waits for. Threads of Keel's own end in another way.
inline bool are_cut_off() noexcept {
  return g_api_state.load(std::memory_order_acquire) == ApiState::kEnding && is_inside();
}
// The failure of such a call: KEEL_ABORTED with kCutOff.
inline constexpr const char* kCutOff = "Keel was shut down";
Status cut_off();

// The deadline of a wait: within a C function it passes once keel_shutdown is called.
inline Deadline deadline(int64_t timeout_ns) {
  return is_inside() ? Deadline::after_or_shutdown(timeout_ns) : Deadline::after(timeout_ns);
}

// For keel_shutdown, once g_api_state is kEnding: returns when no thread is inside, or
// KEEL_TIMED_OUT at |deadline|, naming the calls that have not ended.
Status await(const Deadline& deadline);

}  // namespace insiders

}  // namespace keel

#endif  // KEEL_CORE_INSIDERS_H_
