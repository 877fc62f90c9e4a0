// SPDX-License-Identifier: Apache-2.0
#include "collectives/flight/flight_clock.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/ipc/file_descriptor.h"
#include "collectives/flight/flight_format.h"

namespace keel {
namespace {

int64_t clock_ns(clockid_t clock) {
  timespec now = {};
  clock_gettime(clock, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

double measure_ticks_per_us() {
  if (kFlightClock == FlightClock::kMonotonic) return 1000;
  constexpr int64_t kLong = 200'000;
  const FlightTimestamp begin = FlightTimestamp::now();
  FlightTimestamp end = begin;
  while (end.monotonic_ns - begin.monotonic_ns < kLong) end = FlightTimestamp::now();
  const auto ticks = static_cast<double>(end.ticks - begin.ticks);
  return std::max(1e-3, ticks * 1000 / static_cast<double>(end.monotonic_ns - begin.monotonic_ns));
}

}  // namespace

FlightTimestamp FlightTimestamp::now() {
  FlightTimestamp moment;
  moment.realtime_ns = clock_ns(CLOCK_REALTIME);
  moment.monotonic_ns = clock_ns(CLOCK_MONOTONIC);
  moment.ticks = flight_ticks();
  return moment;
}

double flight_ticks_per_us() {
  static const double rate = measure_ticks_per_us();
  return rate;
}

std::string boot_id() {
  // Not a standard stream: short of memory, a stream would silently yield an empty id.
  const FileDescriptor file(open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  std::array<char, 36> id;
  if (!file || read(file.get(), id.data(), id.size()) != static_cast<ssize_t>(id.size())) return {};
  return {id.data(), id.size()};
}

}  // namespace keel
