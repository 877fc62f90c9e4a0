// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_KERNELS_GPU_PHILOX_H_
#define KEEL_KERNELS_GPU_PHILOX_H_

#include "kernels/gpu/simt.h"

namespace keel::simt {

// The four words that Philox4x32-10 generates from one counter, whose upper 64 bits are 0.
struct Philox {
  uint32_t words[4];

  KEEL_SIMT_FUNCTION Philox(uint64_t counter, uint64_t key)
      : words{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0} {
    auto key0 = static_cast<uint32_t>(key);
    auto key1 = static_cast<uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
      const uint64_t product0 = uint64_t{0xD2511F53U} * words[0];
      const uint64_t product1 = uint64_t{0xCD9E8D57U} * words[2];
      words[0] = static_cast<uint32_t>(product1 >> 32) ^ words[1] ^ key0;
      words[1] = static_cast<uint32_t>(product1);
      words[2] = static_cast<uint32_t>(product0 >> 32) ^ words[3] ^ key1;
      words[3] = static_cast<uint32_t>(product0);
      key0 += 0x9E3779B9U;
      key1 += 0xBB67AE85U;
    }
  }
};

}  // namespace keel::simt

#endif  // KEEL_KERNELS_GPU_PHILOX_H_
