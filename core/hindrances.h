// SPDX-License-Identifier: Apache-2.0
// What may keep calls from their short way, in the whole process.
#ifndef KEEL_CORE_HINDRANCES_H_
#define KEEL_CORE_HINDRANCES_H_

#include <atomic>
#include <cstdint>

namespace keel::hindrances {

inline constexpr uint32_t kObservers = 0xff;    // a bit for each slot: somebody watches
inline constexpr uint32_t kLostDevice = 0x100;  // some device was lost; until the runtime ends

// One word, so that a call need look once. Streams have one of their own besides.
inline constinit std::atomic<uint32_t> g_process{0};

inline bool any(uint32_t which) {
  return (g_process.load(std::memory_order_relaxed) & which) != 0;
}

}  // namespace keel::hindrances

#endif  // KEEL_CORE_HINDRANCES_H_
