// SPDX-License-Identifier: Apache-2.0
#include "collectives/testing/odd_host.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

// Sanitizers may call these before they are ready.
#define KEEL_EARLY __attribute__((no_sanitize_address, no_sanitize_thread, no_sanitize_undefined))

namespace {

KEEL_EARLY bool is_wall_clock(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
}

KEEL_EARLY timespec wall_time() {
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  return now;
}

}  // namespace

extern "C" {

KEEL_EARLY long sysconf(int name) noexcept {
  using Sysconf = long (*)(int);
  if (name == _SC_PAGESIZE && getenv(keel::testing::kLargePages) != nullptr) {
    return keel::testing::kLargePage;
  }
  static Sysconf next = nullptr;
  if (next == nullptr) next = reinterpret_cast<Sysconf>(dlsym(RTLD_NEXT, "sysconf"));
  return next(name);
}

KEEL_EARLY int getpagesize() noexcept {
  return static_cast<int>(sysconf(_SC_PAGESIZE));
}

KEEL_EARLY int clock_gettime(clockid_t clock, timespec* out) noexcept {
  const auto result = static_cast<int>(syscall(SYS_clock_gettime, clock, out));
  if (result == 0 && is_wall_clock(clock) && getenv(keel::testing::kJumpingClock) != nullptr) {
    static std::atomic<unsigned> readings{0};
    out->tv_sec += readings.fetch_add(1) % 2 == 0 ? 3600 : -3600;
  }
  return result;
}

KEEL_EARLY int gettimeofday(timeval* out, void* /*zone*/) noexcept {
  const timespec now = wall_time();
  *out = {now.tv_sec, now.tv_nsec / 1000};
  return 0;
}

KEEL_EARLY time_t time(time_t* out) noexcept {
  const time_t seconds = wall_time().tv_sec;
  if (out != nullptr) *out = seconds;
  return seconds;
}

}  // extern "C"
