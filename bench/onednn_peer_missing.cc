// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>

#include "bench/onednn_peer.h"

namespace keel::bench {

bool OnednnPeer::is_here() {
  return false;
}

std::string OnednnPeer::describe() {
  return "built without oneDNN";
}

bool OnednnPeer::has_bf16() {
  return false;
}

void OnednnPeer::multiply(const Product&, const float*, const float*, float*, uint32_t) {
  throw std::logic_error(describe());
}

struct OnednnProduct::Compiled {};

OnednnProduct::OnednnProduct(const Product&, bool, uint32_t, const void*) {
  throw std::logic_error(OnednnPeer::describe());
}

OnednnProduct::~OnednnProduct() = default;

void OnednnProduct::run(const void*, const void*, void*) {}

}  // namespace keel::bench
