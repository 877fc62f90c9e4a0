// SPDX-License-Identifier: Apache-2.0
// The operators of the CPU backend, one table entry per operator; see operator_table().
#ifndef KEEL_BACKENDS_CPU_OPS_H_
#define KEEL_BACKENDS_CPU_OPS_H_

#include <keel/abi.h>

#include <cstdint>
#include <keel/plugin_kit.hpp>

#include "backends/cpu/device.h"
#include "backends/cpu/stream.h"

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

extern const Operator kFillOperator;
extern const Operator kCastOperator;
extern const Operator kAddOperator;
extern const Operator kScaleOperator;
extern const Operator kAxpyOperator;
extern const Operator kSumOperator;
extern const Operator kMatmulOperator;
extern const Operator kGeluOperator;
extern const Operator kGeluBackwardOperator;
extern const Operator kEmbeddingOperator;
extern const Operator kEmbeddingBackwardOperator;
extern const Operator kCrossEntropyOperator;
extern const Operator kCrossEntropyBackwardOperator;
extern const Operator kAdamwOperator;
// ops_norm.cc
extern const Operator kLayerNormOperator;
extern const Operator kLayerNormBackwardOperator;
extern const Operator kRmsNormOperator;
extern const Operator kRmsNormBackwardOperator;
extern const Operator kSoftmaxOperator;
extern const Operator kSoftmaxBackwardOperator;
extern const Operator kAttentionOperator;
extern const Operator kAttentionBackwardOperator;
extern const Operator kAttentionMergeOperator;
extern const Operator kBatchedMatmulOperator;
extern const Operator kPackWeightsOperator;
extern const Operator kPackedMatmulOperator;
extern const Operator kSumOfSquaresOperator;
extern const Operator kClipOperator;
extern const Operator kCrossEntropyShardOperator;
extern const Operator kCrossEntropyShardBackwardOperator;
extern const Operator kSwigluOperator;
extern const Operator kSwigluBackwardOperator;
extern const Operator kBiasGeluOperator;
extern const Operator kBiasGeluBackwardOperator;
extern const Operator kRopeOperator;
extern const Operator kDropoutAddOperator;
extern const Operator kDropoutBackwardOperator;
extern const Operator kTransposeOperator;
extern const Operator kCastScaledOperator;

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_OPS_H_
