// SPDX-License-Identifier: Apache-2.0
// The clocks by which a flight recorder's ticks become times.
#ifndef KEEL_COLLECTIVES_FLIGHT_FLIGHT_CLOCK_H_
#define KEEL_COLLECTIVES_FLIGHT_FLIGHT_CLOCK_H_

#include <cstdint>
#include <string>

namespace keel {

// One moment, by all of them.
struct FlightMoment {
  uint64_t ticks;
  int64_t realtime_ns;
  int64_t monotonic_ns;

  static FlightMoment now();
};

// Measured once a process, over 200 us. Thread-safe.
double flight_ticks_per_us();
// The kernel's name for this boot, by which ticks can be compared; empty where it tells none.
std::string boot_id();

}  // namespace keel

#endif  // KEEL_COLLECTIVES_FLIGHT_FLIGHT_CLOCK_H_
