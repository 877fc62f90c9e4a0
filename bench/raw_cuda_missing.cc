// SPDX-License-Identifier: Apache-2.0
#include "bench/raw_cuda.h"

namespace keel::bench {

std::unique_ptr<RawCuda> RawCuda::open(const uint8_t*, std::string* out_reason) {
  *out_reason = "built without CUDA's headers";
  return nullptr;
}

}  // namespace keel::bench
