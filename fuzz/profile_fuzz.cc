// SPDX-License-Identifier: Apache-2.0
// Fuzzes chip profiles of the emulator.
#include "emulator/profile.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  keel::emulator::Profile profile;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (!keel::emulator::parse_profile(text, &profile).ok()) return 0;
  // Every accepted profile has usable rates.
  if (!(profile.tflops_of("float32") > 0) || !(profile.memory_gb_per_s > 0)) __builtin_trap();
  return 0;
}
