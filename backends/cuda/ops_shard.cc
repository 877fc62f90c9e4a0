// Losses over a vocabulary in shards: cross_entropy_shard and its gradient.
#include "backends/cuda/ops.h"

namespace keel::cuda {
namespace {

using simt::KernelId;

constexpr keel_dtype f32 = KEEL_FLOAT32;
constexpr keel_dtype bf16 = KEEL_BFLOAT16;
constexpr keel_dtype i32 = KEEL_INT32;

// The kernels of one dtype of logits: a row is a warp's up to this length, a longer one a
// block's.
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

bool supports_cross_entropy_shard(const keel_op_call& call) {
  return are_dense(call, {f32, i32, f32, f32, f32}) || are_dense(call, {bf16, i32, f32, f32, f32});
}

keel_status run_cross_entropy_shard(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& logits = *call.inputs[0];
  if (logits.shape[0] == 0) return KEEL_OK;
  const RowKernels kernels =
      logits.dtype == f32
          ? RowKernels{KernelId::shard_loss_f32_warp, KernelId::shard_loss_f32_block}
          : RowKernels{KernelId::shard_loss_bf16_warp, KernelId::shard_loss_bf16_block};
  return launch_rows(stream, kernels,
                     simt::CrossEntropyShardArguments{
                         address_of(logits), address_of(*call.inputs[1]),
                         address_of(*call.outputs[0]), address_of(*call.outputs[1]),
                         address_of(*call.outputs[2]), static_cast<uint64_t>(logits.shape[0]),
                         static_cast<uint64_t>(logits.shape[1]), call.attributes[0].i});
}

bool supports_cross_entropy_shard_backward(const keel_op_call& call) {
  return are_dense(call, {f32, i32, f32, f32}) || are_dense(call, {bf16, i32, f32, bf16});
}

keel_status run_cross_entropy_shard_backward(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& logits = *call.inputs[0];
  if (kit::element_count(logits) == 0) return KEEL_OK;
  const RowKernels kernels =
      logits.dtype == f32
          ? RowKernels{KernelId::shard_gradient_f32_warp, KernelId::shard_gradient_f32_block}
          : RowKernels{KernelId::shard_gradient_bf16_warp, KernelId::shard_gradient_bf16_block};
  return launch_rows(
      stream, kernels,
      simt::CrossEntropyShardBackwardArguments{
          address_of(logits), address_of(*call.inputs[1]), address_of(*call.inputs[2]),
          address_of(*call.outputs[0]), static_cast<uint64_t>(logits.shape[0]),
          static_cast<uint64_t>(logits.shape[1]), call.attributes[1].i,
          static_cast<float>(call.attributes[0].f), 0});
}

}  // namespace

const Op kCrossEntropyShardOp = {"simt.cross_entropy_shard", supports_cross_entropy_shard, nullptr,
                                 run_cross_entropy_shard};
const Op kCrossEntropyShardBackwardOp = {"simt.cross_entropy_shard_backward",
                                         supports_cross_entropy_shard_backward, nullptr,
                                         run_cross_entropy_shard_backward};

}  // namespace keel::cuda
