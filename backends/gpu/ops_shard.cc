// SPDX-License-Identifier: Apache-2.0
// Losses over a vocabulary in shards: cross_entropy_shard and its gradient.
#include "backends/gpu/ops.h"

namespace keel::gpu {
namespace {

using simt::KernelId;

// The kernels of one dtype of logits: a warp processes rows up to this length, a block longer rows.
constexpr uint64_t kWarpColumns = 512;
struct RowKernels {
  KernelId warp, block;
};

template <typename Arguments>
keel_status launch_rows(Stream& stream, const RowKernels& kernels, const Arguments& arguments) {
  const bool is_short = arguments.columns <= kWarpColumns;
  return launch(stream, is_short ? kernels.warp : kernels.block,
                blocks_for(stream, arguments.rows, is_short ? simt::kWarps : 1), arguments);
}

struct ShardKernels {
  RowKernels loss, gradient;
};

ShardKernels shard_kernels(keel_dtype dtype) {
  switch (dtype) {
    case KEEL_BFLOAT16:
      return {{KernelId::shard_loss_bf16_warp, KernelId::shard_loss_bf16_block},
              {KernelId::shard_gradient_bf16_warp, KernelId::shard_gradient_bf16_block}};
    case KEEL_FLOAT16:
      return {{KernelId::shard_loss_f16_warp, KernelId::shard_loss_f16_block},
              {KernelId::shard_gradient_f16_warp, KernelId::shard_gradient_f16_block}};
    default:
      return {{KernelId::shard_loss_f32_warp, KernelId::shard_loss_f32_block},
              {KernelId::shard_gradient_f32_warp, KernelId::shard_gradient_f32_block}};
  }
}

keel_status run_cross_entropy_shard(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& logits = *call.inputs[0];
  if (logits.shape[0] == 0) return KEEL_OK;
  return launch_rows(
      stream, shard_kernels(logits.dtype).loss,
      simt::CrossEntropyShardArguments{
          address_of(logits), address_of(*call.inputs[1]), address_of(*call.outputs[0]),
          address_of(*call.outputs[1]), address_of(*call.outputs[2]),
          static_cast<uint64_t>(logits.shape[0]), static_cast<uint64_t>(logits.shape[1]),
          kit::attributes<keel_op_cross_entropy_shard_attributes>(call).first});
}

keel_status run_cross_entropy_shard_backward(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& logits = *call.inputs[0];
  if (kit::element_count(logits) == 0) return KEEL_OK;
  return launch_rows(
      stream, shard_kernels(logits.dtype).gradient,
      simt::CrossEntropyShardBackwardArguments{
          address_of(logits), address_of(*call.inputs[1]), address_of(*call.inputs[2]),
          address_of(*call.outputs[0]), static_cast<uint64_t>(logits.shape[0]),
          static_cast<uint64_t>(logits.shape[1]),
          kit::attributes<keel_op_cross_entropy_shard_backward_attributes>(call).first,
          static_cast<float>(
              kit::attributes<keel_op_cross_entropy_shard_backward_attributes>(call).scale),
          0});
}

}  // namespace

const Op kCrossEntropyShardOp = {"simt.cross_entropy_shard", is_dense_float_call, nullptr,
                                 run_cross_entropy_shard};
const Op kCrossEntropyShardBackwardOp = {"simt.cross_entropy_shard_backward", is_dense_float_call,
                                         nullptr, run_cross_entropy_shard_backward};

}  // namespace keel::gpu
