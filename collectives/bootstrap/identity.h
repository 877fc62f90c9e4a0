// SPDX-License-Identifier: Apache-2.0
// What processes of one host call each other, the memory they share, and the ranks.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_IDENTITY_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_IDENTITY_H_

#include <array>
#include <compare>
#include <cstdint>
#include <string>

#include "core/status.h"

namespace keel {

// A process for as long as it lives, and none after it: drawn at random, where the kernel
// gives a pid again.
struct ProcessToken {
  std::array<uint8_t, 16> bytes = {};
  auto operator<=>(const ProcessToken&) const = default;
  // 32 digits.
  std::string hex() const;
};

// A memfd, for as long as any process has it open: st_dev and st_ino.
struct ObjectId {
  uint64_t device = 0;
  uint64_t inode = 0;
  auto operator<=>(const ObjectId&) const = default;
};

// A rank, as it is introduced to the others.
struct Attendee {
  uint32_t rank = 0;
  int64_t pid = 0;
  uint64_t start_time = 0;  // of the process: process_start_time()
  ProcessToken process;
  uint32_t flags = 0;  // whatever ranks want to tell each other
  std::string device;  // its name; up to kMaxDeviceName bytes, none of them a control character
  bool operator==(const Attendee&) const = default;
};
inline constexpr uint32_t kMaxDeviceName = 79;
// Ranks in one meeting. Each has an open connection to the process that serves it.
inline constexpr uint32_t kMaxWorld = 4096;

// 128 bits from the kernel's generator.
Status random_bytes(std::array<uint8_t, 16>* out_bytes);
std::string hex_text(const std::array<uint8_t, 16>& bytes);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_IDENTITY_H_
