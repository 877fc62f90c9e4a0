// SPDX-License-Identifier: Apache-2.0
// attention, its gradient and the merge of partial results.
#include <algorithm>
#include <cmath>

#include "backends/vulkan/ops.h"

namespace keel::vulkan {

namespace {

// Tokens that a workgroup processes.
constexpr uint64_t kTile = 32;

// Push constants of the three kernels of attention; each kernel reads its part. |like_q|: out, or
// dq.
struct Arguments {
  uint64_t q, k, v, cu_seqlens_q, cu_seqlens_k;
  uint64_t details;  // of a Details
  uint64_t dout, logsumexp, delta, like_q, dk, dv;
  uint32_t sequences, tokens_q, tokens_k, heads, kv_heads, width;
  float scale;
  uint32_t flags;
};
static_assert(sizeof(Arguments) <= kPushConstantBytes);

// Describes a mask and dropout at the beginning of the workspace: the push constants are full.
struct Details {
  uint64_t mask;
  uint32_t sequence_stride, head_stride, query_stride, queries, keys;
  uint32_t reserved;
  uint64_t seed, offset;
  uint32_t counters, threshold;
  float factor;
};
constexpr uint64_t kDetailsBytes = 64;  // what follows stays aligned
static_assert(sizeof(Details) <= kDetailsBytes);

// |mask|: the index of the last input, of which the rows alone must be dense.
bool supports_heads(const Device& device, const keel_op_call& call, uint32_t mask) {
  keel_op_call others = call;
  others.input_count = mask;
  const keel_tensor* const given = call.inputs[mask];
  return supports_floats(device, others) &&
         (given == nullptr || ((given->shape[3] <= 1 || given->strides[3] == 1) &&
                               kit::span_bytes(*given) / sizeof(float) < uint64_t{kMaxElements}));
}

bool supports_attention(const Device& device, const keel_op_call& call) {
  return supports_heads(device, call, /*mask=*/5);
}

bool supports_attention_backward(const Device& device, const keel_op_call& call) {
  return supports_heads(device, call, /*mask=*/8);
}

uint32_t extent(const keel_tensor& tensor, int axis) {
  return static_cast<uint32_t>(tensor.shape[axis]);
}

// |mask|: the index of the last input.
uint64_t details_workspace(const keel_op_call& call, uint32_t mask) {
  // attention_backward has the same.
  const auto attributes = kit::attributes<keel_op_attention_attributes>(call);
  return call.inputs[mask] == nullptr && attributes.p == 0 ? 0 : kDetailsBytes;
}

void describe_mask(const keel_tensor& mask, Details* details) {
  const auto stride = [&mask](int axis) {
    return mask.shape[axis] == 1 ? 0 : static_cast<uint32_t>(mask.strides[axis]);
  };
  const auto limit = [&mask](int axis) {
    return static_cast<uint32_t>(std::min<int64_t>(mask.shape[axis], UINT32_MAX));
  };
  details->mask = address_of(mask);
  details->sequence_stride = stride(0);
  details->head_stride = stride(1);
  details->query_stride = stride(2);
  details->queries = mask.shape[2] == 1 ? UINT32_MAX : limit(2);
  details->keys = limit(3);
}

void describe_dropout(const keel_op_call& call, Details* details) {
  const auto attributes = kit::attributes<keel_op_attention_attributes>(call);
  details->seed = static_cast<uint64_t>(attributes.seed);
  details->offset = static_cast<uint64_t>(attributes.offset);
  details->counters = (extent(*call.inputs[1], 0) + 3) / 4;
  details->threshold = static_cast<uint32_t>(std::ldexp(attributes.p, 32));
  details->factor = static_cast<float>(1 / (1 - attributes.p));
}

// Describes the mask, input |mask|, and dropout in the workspace, if there are any.
keel_status describe(Stream& stream, const keel_op_call& call, uint32_t mask, void* workspace,
                     Arguments* arguments) {
  if (details_workspace(call, mask) == 0) return KEEL_OK;
  Details details = {};
  if (call.inputs[mask] != nullptr) {
    describe_mask(*call.inputs[mask], &details);
    arguments->flags |= 4U;
  }
  if (kit::attributes<keel_op_attention_attributes>(call).p != 0) {
    describe_dropout(call, &details);
    arguments->flags |= 8U;
  }
  arguments->details = reinterpret_cast<uintptr_t>(workspace);
  return stream.copy(KEEL_COPY_HOST_TO_DEVICE, workspace, &details, sizeof(details));
}

Arguments arguments_of(const keel_op_call& call, uint32_t cu_seqlens) {
  const keel_tensor& q = *call.inputs[0];
  const keel_tensor& k = *call.inputs[1];
  const keel_tensor* const of_q = call.inputs[cu_seqlens];
  const keel_tensor* const of_k = call.inputs[cu_seqlens + 1];
  const bool is_packed = of_q != nullptr;
  Arguments arguments = {};
  arguments.q = address_of(q);
  arguments.k = address_of(k);
  arguments.v = address_of(*call.inputs[2]);
  arguments.cu_seqlens_q = is_packed ? address_of(*of_q) : 0;
  arguments.cu_seqlens_k = is_packed ? address_of(*of_k) : 0;
  arguments.sequences = is_packed ? extent(*of_q, 0) - 1 : 1;
  arguments.tokens_q = extent(q, 0);
  arguments.tokens_k = extent(k, 0);
  arguments.heads = extent(q, 1);
  arguments.kv_heads = extent(k, 1);
  arguments.width = extent(q, 2);
  arguments.scale = static_cast<float>(kit::attributes<keel_op_attention_attributes>(call).scale);
  arguments.flags = (kit::attributes<keel_op_attention_attributes>(call).causal != 0 ? 1U : 0U) |
                    (is_packed ? 2U : 0U);
  return arguments;
}

uint32_t groups(Stream& stream, uint64_t work) {
  return static_cast<uint32_t>(
      std::min<uint64_t>(work, stream.device().physical().max_workgroup_count));
}

// Dispatches the kernel for heads of up to 64, 128 or 256 elements: two bits of the variant, above
// the bit of the dtype.
keel_status dispatch_tiles(Stream& stream, PipelineKey kernel, const Arguments& arguments,
                           uint64_t tokens, uint64_t heads) {
  kernel.variant |= (arguments.width <= 64 ? 0u : arguments.width <= 128 ? 1u : 2u) << 1;
  return stream.dispatch(kernel, &arguments, sizeof(arguments),
                         groups(stream, (tokens + kTile - 1) / kTile * heads));
}

uint64_t attention_workspace(const keel_op_call& call) {
  return details_workspace(call, /*mask=*/5);
}

keel_status run_attention(Stream& stream, const keel_op_call& call, void* workspace) {
  Arguments arguments = arguments_of(call, /*cu_seqlens=*/3);
  const keel_status status = describe(stream, call, /*mask=*/5, workspace, &arguments);
  if (status != KEEL_OK) return status;
  arguments.like_q = address_of(*call.outputs[0]);
  arguments.logsumexp = address_of(*call.outputs[1]);
  return dispatch_tiles(stream,
                        stored_key(call.inputs[0]->dtype, Shader::kAttention, Shader::kAttention16),
                        arguments, arguments.tokens_q, arguments.heads);
}

uint64_t attention_backward_workspace(const keel_op_call& call) {
  return details_workspace(call, /*mask=*/8) +
         static_cast<uint64_t>(kit::element_count(*call.inputs[5])) * sizeof(float);
}

keel_status run_attention_backward(Stream& stream, const keel_op_call& call, void* workspace) {
  const keel_dtype dtype = call.inputs[0]->dtype;
  Arguments arguments = arguments_of(call, /*cu_seqlens=*/6);
  arguments.dout = address_of(*call.inputs[4]);
  arguments.logsumexp = address_of(*call.inputs[5]);
  arguments.delta = reinterpret_cast<uintptr_t>(workspace) + details_workspace(call, /*mask=*/8);
  arguments.like_q = address_of(*call.outputs[0]);
  arguments.dk = address_of(*call.outputs[1]);
  arguments.dv = address_of(*call.outputs[2]);
  struct {
    uint64_t out, dout, delta;
    uint32_t tokens, heads, width;
  } rows = {address_of(*call.inputs[3]), arguments.dout,  arguments.delta,
            arguments.tokens_q,          arguments.heads, arguments.width};
  keel_status status = describe(stream, call, /*mask=*/8, workspace, &arguments);
  if (status != KEEL_OK) return status;
  status =
      stream.dispatch(stored_key(dtype, Shader::kAttentionDelta, Shader::kAttentionDelta16), &rows,
                      sizeof(rows), groups(stream, uint64_t{arguments.tokens_q} * arguments.heads));
  if (status != KEEL_OK) return status;
  status = dispatch_tiles(stream, stored_key(dtype, Shader::kAttentionDq, Shader::kAttentionDq16),
                          arguments, arguments.tokens_q, arguments.heads);
  if (status != KEEL_OK) return status;
  return dispatch_tiles(stream, stored_key(dtype, Shader::kAttentionDkDv, Shader::kAttentionDkDv16),
                        arguments, arguments.tokens_k, arguments.kv_heads);
}

keel_status run_attention_merge(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& a = *call.inputs[0];
  struct {
    uint64_t out_a, lse_a, out_b, lse_b, out, logsumexp;
    uint32_t tokens, heads, width;
  } arguments = {address_of(a),
                 address_of(*call.inputs[1]),
                 address_of(*call.inputs[2]),
                 address_of(*call.inputs[3]),
                 address_of(*call.outputs[0]),
                 address_of(*call.outputs[1]),
                 extent(a, 0),
                 extent(a, 1),
                 extent(a, 2)};
  return stream.dispatch({Shader::kAttentionMerge}, &arguments, sizeof(arguments),
                         groups(stream, uint64_t{arguments.tokens} * arguments.heads));
}

}  // namespace

const Op kAttentionOp = {"vulkan.attention", supports_attention, attention_workspace,
                         run_attention};
const Op kAttentionBackwardOp = {"vulkan.attention_backward", supports_attention_backward,
                                 attention_backward_workspace, run_attention_backward};
const Op kAttentionMergeOp = {"vulkan.attention_merge", supports_floats, nullptr,
                              run_attention_merge};

}  // namespace keel::vulkan
