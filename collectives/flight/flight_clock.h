// SPDX-License-Identifier: Apache-2.0
// Clocks that convert a flight recorder's ticks to times.
#ifndef KEEL_COLLECTIVES_FLIGHT_FLIGHT_CLOCK_H_
#define KEEL_COLLECTIVES_FLIGHT_FLIGHT_CLOCK_H_

#include <cstdint>
#include <string>

namespace keel {

// One instant, read from all clocks.
struct FlightTimestamp {
  uint64_t ticks;
  int64_t realtime_ns;
  int64_t monotonic_ns;

  static FlightTimestamp now();
};

// Measured once per process, over 200 us. Thread-safe.
double flight_ticks_per_us();
// The kernel's boot id; ticks are comparable only within one boot. Empty if the kernel provides no
// id.
std::string boot_id();

}  // namespace keel

#endif  // KEEL_COLLECTIVES_FLIGHT_FLIGHT_CLOCK_H_
