// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/identity.h"

#include <sys/random.h>

#include <cerrno>
#include <charconv>

#include "collectives/bootstrap/system_failure.h"
#include "collectives/flight/flight_clock.h"

namespace keel {

std::string ProcessToken::hex() const {
  return hex_text(bytes);
}

std::string hex_text(const std::array<uint8_t, 16>& bytes) {
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

PeerChip PeerChip::of(const keel_device_info& device) {
  PeerChip chip;
  chip.id = ChipId::of(device);
  std::string digits = boot_id();
  std::erase(digits, '-');
  if (digits.size() != 2 * chip.boot.size()) return chip;
  for (size_t i = 0; i < chip.boot.size(); ++i) {
    std::from_chars(&digits[2 * i], &digits[2 * i] + 2, chip.boot[i], 16);
  }
  return chip;
}

bool PeerInfo::shares_chip_with(const PeerInfo& other) const {
  const bool is_one_machine = process == other.process ||
                              (chip.boot != decltype(chip.boot){} && chip.boot == other.chip.boot);
  return is_one_machine && chip.id.is_same_as(other.chip.id);
}

Status random_bytes(std::array<uint8_t, 16>* out_bytes) {
  // Once the generator is seeded, requests up to 256 bytes are complete and uninterrupted.
  ssize_t got = 0;
  do {
    got = getrandom(out_bytes->data(), out_bytes->size(), 0);
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(out_bytes->size())) return system_failure(errno, "getrandom");
  return {};
}

}  // namespace keel
