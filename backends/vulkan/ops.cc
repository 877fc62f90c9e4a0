#include "backends/vulkan/ops.h"

namespace keel::vulkan {

const Op* find_op(keel_op_id id) {
  static constexpr const Op* kOps[KEEL_OP_COUNT] = {
      nullptr,          &kFillOp,
      &kCastOp,         &kAddOp,
      &kScaleOp,        &kAxpyOp,
      &kSumOp,          &kMatmulOp,
      &kGeluOp,         &kGeluBackwardOp,
      &kEmbeddingOp,    &kEmbeddingBackwardOp,
      &kCrossEntropyOp, &kCrossEntropyBackwardOp,
      &kAdamwOp,
  };
  switch (id) {
    case KEEL_OP_BATCHED_MATMUL:
      return &kBatchedMatmulOp;
    case KEEL_OP_SUM_OF_SQUARES:
      return &kSumOfSquaresOp;
    case KEEL_OP_CLIP:
      return &kClipOp;
    case KEEL_OP_CROSS_ENTROPY_SHARD:
      return &kCrossEntropyShardOp;
    case KEEL_OP_CROSS_ENTROPY_SHARD_BACKWARD:
      return &kCrossEntropyShardBackwardOp;
    default:
      break;
  }
  return id < KEEL_OP_COUNT ? kOps[id] : nullptr;
}

}  // namespace keel::vulkan
