// SPDX-License-Identifier: Apache-2.0
// Slow-path flags of the whole process: conditions that keep calls off the fast path.
#ifndef KEEL_CORE_SLOW_PATH_FLAGS_H_
#define KEEL_CORE_SLOW_PATH_FLAGS_H_

#include <atomic>
#include <cstdint>

namespace keel::slow_path_flags {

inline constexpr uint32_t kObservers = 0xff;    // one bit for each observer slot in use
inline constexpr uint32_t kLostDevice = 0x100;  // a device was lost; set until the runtime ends

// A call checks all flags with one load. Streams have flag words of their own as well.
inline constinit std::atomic<uint32_t> g_process{0};

inline bool any(uint32_t which) {
  return (g_process.load(std::memory_order_relaxed) & which) != 0;
}

}  // namespace keel::slow_path_flags

#endif  // KEEL_CORE_SLOW_PATH_FLAGS_H_
