// SPDX-License-Identifier: Apache-2.0
#include "backends/vulkan/ops.h"

namespace keel::vulkan {

const Op* find_op(keel_op_id id) {
  static constexpr const Op* kOps[KEEL_OP_COUNT] = {
      nullptr,
      &kFillOp,
      &kCastOp,
      &kAddOp,
      &kScaleOp,
      &kAxpyOp,
      &kSumOp,
      &kMatmulOp,
      &kGeluOp,
      &kGeluBackwardOp,
      &kEmbeddingOp,
      &kEmbeddingBackwardOp,
      &kCrossEntropyOp,
      &kCrossEntropyBackwardOp,
      &kAdamwOp,
      &kLayerNormOp,
      &kLayerNormBackwardOp,
      &kRmsNormOp,
      &kRmsNormBackwardOp,
      &kSoftmaxOp,
      &kSoftmaxBackwardOp,
      &kSwigluOp,
      &kSwigluBackwardOp,
      &kBiasGeluOp,
      &kBiasGeluBackwardOp,
      &kRopeOp,
      &kDropoutAddOp,
      &kDropoutBackwardOp,
      &kTransposeOp,
      &kCastScaledOp,
      &kAttentionOp,
      &kAttentionBackwardOp,
      &kAttentionMergeOp,
      &kBatchedMatmulOp,
      &kSumOfSquaresOp,
      &kClipOp,
      &kCrossEntropyShardOp,
      &kCrossEntropyShardBackwardOp,
      &kPackWeightsOp,
      &kPackedMatmulOp,
  };
  return id < KEEL_OP_COUNT ? kOps[id] : nullptr;
}

}  // namespace keel::vulkan
