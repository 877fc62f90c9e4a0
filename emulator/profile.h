// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_PROFILE_H_
#define KEEL_EMULATOR_PROFILE_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "emulator/status.h"

namespace keel::emulator {

// The performance figures of a chip, which a paced device follows. docs/emulator.md describes the
// file.
struct Profile {
  std::string name;
  std::string architecture = "emulated";
  uint64_t memory_bytes = 0;  // 0: unspecified
  double memory_gb_per_s = 0;
  double host_to_device_gb_per_s = 0;
  double device_to_host_gb_per_s = 0;
  double peer_gb_per_s = 0;
  double launch_latency_us = 0;
  // TFLOP/s by dtype; "float32" is always present.
  std::map<std::string, double, std::less<>> tflops;

  // Returns the rate of |dtype|, or that of float32 where the profile omits |dtype|.
  double tflops_of(std::string_view dtype) const;
};

// Parses JSON text. Returns kInvalidArgument, naming the key, for a key that is missing, unknown,
// given twice, of a wrong type, not above 0, or beyond any chip.
Status parse_profile(std::string_view json, Profile* out_profile);
// Reads and parses a file of at most 64 KiB.
Status read_profile(const std::string& file, Profile* out_profile);

}  // namespace keel::emulator

#endif  // KEEL_EMULATOR_PROFILE_H_
