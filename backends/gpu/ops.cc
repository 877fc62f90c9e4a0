// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/ops.h"

namespace keel::gpu {

const Op* find_op(keel_op_id id) {
#define KEEL_OP_ENTRY(NUMBER, name, Name) &k##Name##Op,
  static constexpr const Op* kOps[] = {nullptr, KEEL_FOR_EACH_OP(KEEL_OP_ENTRY)};
#undef KEEL_OP_ENTRY
  return id < KEEL_OP_COUNT ? kOps[id] : nullptr;
}

}  // namespace keel::gpu
