// SPDX-License-Identifier: Apache-2.0
// Fuzzes sequences of keel.h calls.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "fuzz/random_calls.h"

namespace {

// Returns devices of the cpu plugin and of the emulated chip. Keel stays initialized between
// inputs.
std::vector<keel_device> start() {
  setenv("KEEL_CPU_DEVICES", "2", /*overwrite=*/0);
  setenv("KEEL_SIM_DEVICES", "2", /*overwrite=*/0);
  auto options = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
  options.backends = "cpu,sim";
  std::vector<keel_device> devices;
  uint32_t count = 0;
  if (keel_set_log(KEEL_LOG_OFF, nullptr, nullptr) != KEEL_OK || keel_init(&options) != KEEL_OK ||
      keel_device_count(&count) != KEEL_OK) {
    std::fprintf(stderr, "keel_init: %s\n", keel_last_error());
    std::abort();
  }
  devices.resize(count);
  for (uint32_t i = 0; i < count; ++i) keel_device_get(i, &devices[i]);
  return devices;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<keel_device> devices = start();
  keel::fuzz::World world(devices);
  keel::fuzz::RandomCalls calls(world);
  calls.run(keel::fuzz::Bytes({data, size}));
  world.finish();
  if (world.problem().empty()) return 0;
  std::fprintf(stderr, "%s\n", world.problem().c_str());
  std::abort();
}
