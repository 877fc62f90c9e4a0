// SPDX-License-Identifier: Apache-2.0
// The calls whose instructions emulated_overhead counts: equal calls of keel.h on each backend
// whose driver is emulated.
#ifndef KEEL_BENCH_DRIVER_CALLS_H_
#define KEEL_BENCH_DRIVER_CALLS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace keel::bench {

struct DriverCall {
  const char* name;                    // "copy"
  const char* about;                   // one phrase
  std::vector<std::string> functions;  // of keel.h: "keel_copy"
};

std::span<const DriverCall> driver_calls();

// Returns the folder of the emulated vendor's libraries for |backend|; empty if there is none.
std::string emulated_libraries(const std::string& backend);

// Body of keel_bench --repeat "driver/BACKEND/CALL": makes the call |count| times on an emulated
// device, and waits for the device after each. Returns false for another |what|.
bool repeat_driver_call(const std::string& what, uint64_t count);

}  // namespace keel::bench

#endif  // KEEL_BENCH_DRIVER_CALLS_H_
