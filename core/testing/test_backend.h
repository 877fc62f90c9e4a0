// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_CORE_TESTING_TEST_BACKEND_H_
#define KEEL_CORE_TESTING_TEST_BACKEND_H_

#include <keel/keel.h>

#include <cstdint>
#include <cstdlib>
#include <string>

namespace keel::testing {

// The backend of a test's devices: the CPU's, or KEEL_TEST_BACKEND (see SIM in
// cmake/KeelTargets.cmake). Tests set the number of devices they need.
inline std::string test_backend() {
  const char* const name = std::getenv("KEEL_TEST_BACKEND");
  return name == nullptr ? "cpu" : name;
}

// "cpu:1"
inline std::string test_device(uint32_t ordinal) {
  return test_backend() + ":" + std::to_string(ordinal);
}

// For instances created from the environment.
inline void set_test_devices(uint32_t count) {
  const char* const variable = test_backend() == "sim" ? "KEEL_SIM_DEVICES" : "KEEL_CPU_DEVICES";
  setenv(variable, std::to_string(count).c_str(), 1);
}

// Initializes Keel with the test backend alone, |count| devices, and a deadline that only a hang
// reaches.
inline keel_status init_test_devices(uint32_t count) {
  set_test_devices(count);
  auto options = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
  const std::string backend = test_backend();
  options.backends = backend.c_str();
  options.default_timeout_ns = 60'000'000'000;
  return keel_init(&options);
}

}  // namespace keel::testing

#endif  // KEEL_CORE_TESTING_TEST_BACKEND_H_
