// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/yield_guard.h"

#include <sched.h>

#include <chrono>

namespace keel {

namespace {

// ticks() in a millisecond: the time stamp counter of an x86 processor has 1 to 4 GHz.
uint64_t ticks_in_a_millisecond() {
#if defined(__x86_64__)
  return 2'000'000;
#elif defined(__aarch64__)
  uint64_t frequency = 0;
  asm("mrs %0, cntfrq_el0" : "=r"(frequency));
  return frequency / 1000;
#else
  return 1'000'000;
#endif
}

}  // namespace

const uint64_t YieldGuard::kLongYield = ticks_in_a_millisecond();

uint64_t YieldGuard::ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t now = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(now));
  return now;
#else
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::nanoseconds(now).count());
#endif
}

YieldGuard& YieldGuard::of_thread() {
  static thread_local YieldGuard guard;
  return guard;
}

bool YieldGuard::yield(uint32_t turn) {
  // The poll since the yield before is too short to look again.
  const uint64_t begin = turn == 0 ? ticks() : end_;
  if (!may_yield(begin)) return false;
  sched_yield();
  end_ = ticks();
  note_yield(begin, end_);
  return true;
}

}  // namespace keel
