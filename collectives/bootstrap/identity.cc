// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/identity.h"

#include <sys/random.h>

#include <cerrno>

#include "collectives/bootstrap/system_failure.h"

namespace keel {

std::string ProcessToken::hex() const {
  return hex_text(bytes);
}

std::string hex_text(const std::array<uint8_t, 16>& bytes) {
  return fmt::format("{:02x}", fmt::join(bytes, ""));
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
