// SPDX-License-Identifier: Apache-2.0
// Replaces ccl_table.cc in builds without nccl.h.
#include "backends/gpu/ccl_table.h"

namespace keel::gpu {

const keel_ccl_table* ccl_table() {
  return nullptr;
}

bool has_collectives(const std::string& /*folder*/) {
  return false;
}

}  // namespace keel::gpu
