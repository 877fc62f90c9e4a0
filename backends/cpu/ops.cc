// SPDX-License-Identifier: Apache-2.0
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
    case KEEL_OP_LAYER_NORM:
      return &kLayerNormOperator;
    case KEEL_OP_LAYER_NORM_BACKWARD:
      return &kLayerNormBackwardOperator;
    case KEEL_OP_RMS_NORM:
      return &kRmsNormOperator;
    case KEEL_OP_RMS_NORM_BACKWARD:
      return &kRmsNormBackwardOperator;
    case KEEL_OP_SOFTMAX:
      return &kSoftmaxOperator;
    case KEEL_OP_SOFTMAX_BACKWARD:
      return &kSoftmaxBackwardOperator;
    case KEEL_OP_ATTENTION:
      return &kAttentionOperator;
    case KEEL_OP_ATTENTION_BACKWARD:
      return &kAttentionBackwardOperator;
    case KEEL_OP_ATTENTION_MERGE:
      return &kAttentionMergeOperator;
    case KEEL_OP_BATCHED_MATMUL:
      return &kBatchedMatmulOperator;
    case KEEL_OP_PACK_WEIGHTS:
      return &kPackWeightsOperator;
    case KEEL_OP_PACKED_MATMUL:
      return &kPackedMatmulOperator;
    case KEEL_OP_SUM_OF_SQUARES:
      return &kSumOfSquaresOperator;
    case KEEL_OP_CLIP:
      return &kClipOperator;
    case KEEL_OP_CROSS_ENTROPY_SHARD:
      return &kCrossEntropyShardOperator;
    case KEEL_OP_CROSS_ENTROPY_SHARD_BACKWARD:
      return &kCrossEntropyShardBackwardOperator;
    case KEEL_OP_SWIGLU:
      return &kSwigluOperator;
    case KEEL_OP_SWIGLU_BACKWARD:
      return &kSwigluBackwardOperator;
    case KEEL_OP_BIAS_GELU:
      return &kBiasGeluOperator;
    case KEEL_OP_BIAS_GELU_BACKWARD:
      return &kBiasGeluBackwardOperator;
    case KEEL_OP_ROPE:
      return &kRopeOperator;
    case KEEL_OP_DROPOUT_ADD:
      return &kDropoutAddOperator;
    case KEEL_OP_DROPOUT_BACKWARD:
      return &kDropoutBackwardOperator;
    case KEEL_OP_TRANSPOSE:
      return &kTransposeOperator;
    case KEEL_OP_CAST_SCALED:
      return &kCastScaledOperator;
    default:
      return nullptr;
  }
}

}  // namespace keel::cpu
