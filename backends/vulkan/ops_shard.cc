// SPDX-License-Identifier: Apache-2.0
// Losses over a vocabulary in shards: cross_entropy_shard and its gradient.
#include <algorithm>

#include "backends/vulkan/ops.h"

namespace keel::vulkan {

namespace {

keel_status run_cross_entropy_shard(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& logits = *call.inputs[0];
  struct {
    uint64_t logits, labels, max, sum_exp, target;
    uint32_t rows, columns;
    int32_t first;
  } arguments = {
      address_of(logits),
      address_of(*call.inputs[1]),
      address_of(*call.outputs[0]),
      address_of(*call.outputs[1]),
      address_of(*call.outputs[2]),
      static_cast<uint32_t>(logits.shape[0]),
      static_cast<uint32_t>(logits.shape[1]),
      static_cast<int32_t>(kit::attributes<keel_op_cross_entropy_shard_attributes>(call).first)};
  // A workgroup processes a row and advances by the number of groups.
  const auto groups = static_cast<uint32_t>(
      std::min<int64_t>(logits.shape[0], stream.device().physical().max_workgroup_count));
  return stream.dispatch(
      stored_key(logits.dtype, Shader::kCrossEntropyShard, Shader::kCrossEntropyShard16),
      &arguments, sizeof(arguments), groups);
}

keel_status run_cross_entropy_shard_backward(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& logits = *call.inputs[0];
  const auto count = static_cast<uint32_t>(kit::element_count(logits));
  const PipelineKey key = stored_key(logits.dtype, Shader::kCrossEntropyShardBackward,
                                     Shader::kCrossEntropyShardBackward16);
  const Spread dealt = spread(stream.device(), key.shader, count);
  struct {
    uint64_t logits, labels, logsumexp, dlogits;
    uint32_t count, span, columns, first;
    float scale;
  } arguments = {address_of(logits),
                 address_of(*call.inputs[1]),
                 address_of(*call.inputs[2]),
                 address_of(*call.outputs[0]),
                 count,
                 dealt.span,
                 static_cast<uint32_t>(logits.shape[1]),
                 static_cast<uint32_t>(
                     kit::attributes<keel_op_cross_entropy_shard_backward_attributes>(call).first),
                 static_cast<float>(
                     kit::attributes<keel_op_cross_entropy_shard_backward_attributes>(call).scale)};
  return stream.dispatch(key, &arguments, sizeof(arguments), dealt.groups);
}

}  // namespace

const Op kCrossEntropyShardOp = {"vulkan.cross_entropy_shard", supports_floats, nullptr,
                                 run_cross_entropy_shard};
const Op kCrossEntropyShardBackwardOp = {"vulkan.cross_entropy_shard_backward", supports_floats,
                                         nullptr, run_cross_entropy_shard_backward};

}  // namespace keel::vulkan
