// SPDX-License-Identifier: Apache-2.0
#include "bench/peers/peer_contender.h"

namespace keel::bench::peers {

float* PeerContender::allocate(uint64_t elements) {
  return static_cast<float*>(pages_.emplace_back(elements * sizeof(float)).data());
}

}  // namespace keel::bench::peers
