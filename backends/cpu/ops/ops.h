// SPDX-License-Identifier: Apache-2.0
// The operators of the CPU backend, one table entry per operator; see operator_table().
#ifndef KEEL_BACKENDS_CPU_OPS_OPS_H_
#define KEEL_BACKENDS_CPU_OPS_OPS_H_

#include <keel/abi.h>

#include <cstdint>
#include <keel/plugin_kit.hpp>

#include "backends/cpu/runtime/device.h"
#include "backends/cpu/runtime/stream.h"

namespace keel::cpu {

// A kernel's answer to a query; |name| is NULL when the kernel cannot run the call.
struct OpSupport {
  const char* name = nullptr;
  keel_op_level level = KEEL_OP_NATIVE;
  uint64_t workspace_bytes = 0;
};

struct Operator {
  // Takes less than 1 us: no allocation, no lock. |call| has passed the schema; its data pointers
  // may be NULL.
  OpSupport (*query)(const keel_op_call& call);
  // Enqueues a call that query accepts. Copies the parts of |call| that the kernel reads later.
  void (*run)(Stream& stream, const keel_op_call& call, void* workspace);
};

// Host address of the first element of |tensor|.
template <typename Element>
Element* address(const Stream& stream, const keel_tensor& tensor) {
  return stream.device().to_host(kit::first_element<Element>(tensor));
}

// Returns NULL for an operator without a kernel in this backend.
const Operator* find_operator(keel_op_id op);

// kFillOperator, kCastOperator, ...: one per operator of keel/ops.h, in the source of its family.
#define KEEL_DECLARE_OPERATOR(NUMBER, name, Name) extern const Operator k##Name##Operator;
KEEL_FOR_EACH_OP(KEEL_DECLARE_OPERATOR)
#undef KEEL_DECLARE_OPERATOR

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_OPS_OPS_H_
