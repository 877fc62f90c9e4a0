// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10 (Salmon, Moraes, Dror and Shaw, 2011): random words from a counter and a key; the
// factors of dropout drawn from the words.
#ifndef KEEL_OPS_TESTING_PHILOX_H_
#define KEEL_OPS_TESTING_PHILOX_H_

#include <array>
#include <cmath>
#include <cstdint>

namespace keel::ops {

constexpr std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter,
                                             std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// The factor of element |element| of a call with the attributes |p|, |seed| and |offset|: 0, or
// 1 / (1 - p) if the element is kept.
template <typename Attributes>
double dropout_factor(const Attributes& attributes, uint64_t element) {
  const auto seed = static_cast<uint64_t>(attributes.seed);
  const uint64_t counter = static_cast<uint64_t>(attributes.offset) + element / 4;
  const uint32_t word =
      philox4x32({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)})[element % 4];
  return word >= std::floor(attributes.p * 0x1p32) ? 1 / (1 - attributes.p) : 0;
}

}  // namespace keel::ops

#endif  // KEEL_OPS_TESTING_PHILOX_H_
