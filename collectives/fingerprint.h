// SPDX-License-Identifier: Apache-2.0
// Sixteen-byte summary of a rank's call.
#ifndef KEEL_COLLECTIVES_FINGERPRINT_H_
#define KEEL_COLLECTIVES_FINGERPRINT_H_

#include <array>
#include <bit>
#include <cstdint>
#include <type_traits>

namespace keel {

// The fields that must be equal in the calls of all ranks. Published with each call.
struct Fingerprint {
  uint64_t count = 0;  // in the forms with arrays: a hash of the arrays
  uint8_t collective = 0;
  uint8_t dtype = 0;
  uint8_t reduction = 0;
  uint8_t algorithm = 0;
  uint32_t root = 0;

  // All fields but the count, as one word.
  uint64_t kind() const { return std::bit_cast<std::array<uint64_t, 2>>(*this)[1]; }
  static Fingerprint of(uint64_t count, uint64_t kind) {
    return std::bit_cast<Fingerprint>(std::array<uint64_t, 2>{count, kind});
  }
  // Compares two words: every rank compares the fingerprints of all ranks in every operation.
  bool operator==(const Fingerprint& other) const {
    return count == other.count && kind() == other.kind();
  }
};
static_assert(sizeof(Fingerprint) == 16 && std::has_unique_object_representations_v<Fingerprint>);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_FINGERPRINT_H_
