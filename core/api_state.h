// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_CORE_API_STATE_H_
#define KEEL_CORE_API_STATE_H_

#include <atomic>
#include <cstdint>

namespace keel {

// Whether the C functions may be called. One word, so that each call needs one load.
enum class ApiState : uint32_t {
  kClosed,  // before keel_init, or after keel_shutdown
  kOpen,
  kEnding,  // in keel_shutdown, or after one that timed out: calls refused, waits end
  kForked   // forked child of a process that had called keel_init
};
inline std::atomic<ApiState> g_api_state{ApiState::kClosed};

// Whether this process is a forked child of the process that initialised Keel.
inline bool is_forked_child() {
  return g_api_state.load(std::memory_order_relaxed) == ApiState::kForked;
}

}  // namespace keel

#endif  // KEEL_CORE_API_STATE_H_
