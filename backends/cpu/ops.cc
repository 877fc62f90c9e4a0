#include "backends/cpu/ops.h"

namespace keel::cpu {

const Operator* find_operator(keel_op_id op) {
  switch (op) {
    case KEEL_OP_FILL:
      return &kFillOperator;
    case KEEL_OP_CAST:
      return &kCastOperator;
    case KEEL_OP_ADD:
      return &kAddOperator;
    case KEEL_OP_SCALE:
      return &kScaleOperator;
    case KEEL_OP_AXPY:
      return &kAxpyOperator;
    case KEEL_OP_SUM:
      return &kSumOperator;
    case KEEL_OP_MATMUL:
      return &kMatmulOperator;
    case KEEL_OP_GELU:
      return &kGeluOperator;
    case KEEL_OP_GELU_BACKWARD:
      return &kGeluBackwardOperator;
    case KEEL_OP_EMBEDDING:
      return &kEmbeddingOperator;
    case KEEL_OP_EMBEDDING_BACKWARD:
      return &kEmbeddingBackwardOperator;
    case KEEL_OP_CROSS_ENTROPY:
      return &kCrossEntropyOperator;
    case KEEL_OP_CROSS_ENTROPY_BACKWARD:
      return &kCrossEntropyBackwardOperator;
    case KEEL_OP_ADAMW:
      return &kAdamwOperator;
    case KEEL_OP_SWIGLU:
      return &kSwigluOperator;
    case KEEL_OP_SWIGLU_BACKWARD:
      return &kSwigluBackwardOperator;
    case KEEL_OP_BIAS_GELU:
      return &kBiasGeluOperator;
    case KEEL_OP_BIAS_GELU_BACKWARD:
      return &kBiasGeluBackwardOperator;
    default:
      return nullptr;
  }
}

}  // namespace keel::cpu
