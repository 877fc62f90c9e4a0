// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/ops/ops.h"

namespace keel::cpu {

const Operator* find_operator(keel_op_id op) {
#define KEEL_OP_ENTRY(NUMBER, name, Name) &k##Name##Operator,
  static constexpr const Operator* kOperators[] = {nullptr, KEEL_FOR_EACH_OP(KEEL_OP_ENTRY)};
#undef KEEL_OP_ENTRY
  return op < KEEL_OP_COUNT ? kOperators[op] : nullptr;
}

}  // namespace keel::cpu
