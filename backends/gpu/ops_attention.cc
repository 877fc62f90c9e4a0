// SPDX-License-Identifier: Apache-2.0
// attention, its gradient and the merge of partial results.
#include <algorithm>
#include <cmath>

#include "backends/gpu/ops.h"

namespace keel::gpu {
namespace {

using simt::KernelId;

// Limit of a grid's y.
constexpr int64_t kMaxHeads = 65535;
// Limit of a grid's x, in tiles; also, windows are computed with signed numbers.
constexpr int64_t kMaxTokens = int64_t{1} << 31;

// |mask|: the index of the last input, of which the rows alone must be dense.
bool supports_heads(const keel_op_call& call, uint32_t mask) {
  keel_op_call others = call;
  others.input_count = mask;
  const keel_tensor* const given = call.inputs[mask];
  return is_dense_float_call(others) && call.inputs[0]->shape[1] <= kMaxHeads &&
         call.inputs[0]->shape[0] <= kMaxTokens && call.inputs[1]->shape[0] <= kMaxTokens &&
         (given == nullptr || given->shape[3] <= 1 || given->strides[3] == 1);
}

bool supports_attention(const keel_op_call& call) {
  return supports_heads(call, /*mask=*/5);
}

bool supports_attention_backward(const keel_op_call& call) {
  return supports_heads(call, /*mask=*/8);
}

uint64_t extent(const keel_tensor& tensor, int axis) {
  return static_cast<uint64_t>(tensor.shape[axis]);
}

simt::AttentionMask mask_of(const keel_tensor* mask) {
  if (mask == nullptr) return {0, 0, 0, 0, INT64_MAX, INT64_MAX};
  const auto stride = [mask](int axis) { return mask->shape[axis] == 1 ? 0 : mask->strides[axis]; };
  return {
      kit::element_count(*mask) == 0 ? 0 : address_of(*mask), stride(0),     stride(1), stride(2),
      mask->shape[2] == 1 ? INT64_MAX : mask->shape[2],       mask->shape[3]};
}

simt::AttentionDropout dropout_of(const keel_op_call& call) {
  // attention_backward has the same.
  const auto attributes = kit::attributes<keel_op_attention_attributes>(call);
  if (attributes.p == 0) return {};
  return {static_cast<uint64_t>(attributes.seed), static_cast<uint64_t>(attributes.offset),
          (extent(*call.inputs[1], 0) + 3) / 4, static_cast<float>(1 / (1 - attributes.p)),
          static_cast<uint32_t>(std::ldexp(attributes.p, 32))};
}

simt::AttentionProblem problem_of(const keel_op_call& call, uint32_t cu_seqlens) {
  const keel_tensor& q = *call.inputs[0];
  const keel_tensor& k = *call.inputs[1];
  const keel_tensor* const of_q = call.inputs[cu_seqlens];
  const keel_tensor* const of_k = call.inputs[cu_seqlens + 1];
  return {address_of(q),
          address_of(k),
          address_of(*call.inputs[2]),
          of_q == nullptr ? 0 : address_of(*of_q),
          of_k == nullptr ? 0 : address_of(*of_k),
          of_q == nullptr ? 1 : extent(*of_q, 0) - 1,
          extent(q, 0),
          extent(k, 0),
          extent(q, 1),
          extent(k, 1),
          extent(q, 2),
          static_cast<float>(kit::attributes<keel_op_attention_attributes>(call).scale),
          kit::attributes<keel_op_attention_attributes>(call).causal != 0 ? 1U : 0U,
          mask_of(call.inputs[cu_seqlens + 2]),
          dropout_of(call)};
}

// Kernels of one kind and dtype, for heads of up to 64, 128 and 256 elements.
struct ByWidth {
  KernelId narrow, middle, wide;

  KernelId of(uint64_t width) const { return width <= 64 ? narrow : width <= 128 ? middle : wide; }
};

constexpr ByDtype<ByWidth> kForward = {
    {KernelId::attention_f32_64, KernelId::attention_f32_128, KernelId::attention_f32_256},
    {KernelId::attention_bf16_64, KernelId::attention_bf16_128, KernelId::attention_bf16_256},
    {KernelId::attention_f16_64, KernelId::attention_f16_128, KernelId::attention_f16_256}};
constexpr ByDtype<KernelId> kDelta = {KernelId::attention_delta_f32, KernelId::attention_delta_bf16,
                                      KernelId::attention_delta_f16};
constexpr ByDtype<ByWidth> kOfQueries = {
    {KernelId::attention_dq_f32_64, KernelId::attention_dq_f32_128, KernelId::attention_dq_f32_256},
    {KernelId::attention_dq_bf16_64, KernelId::attention_dq_bf16_128,
     KernelId::attention_dq_bf16_256},
    {KernelId::attention_dq_f16_64, KernelId::attention_dq_f16_128,
     KernelId::attention_dq_f16_256}};
constexpr ByDtype<ByWidth> kOfKeys = {
    {KernelId::attention_dk_dv_f32_64, KernelId::attention_dk_dv_f32_128,
     KernelId::attention_dk_dv_f32_256},
    {KernelId::attention_dk_dv_bf16_64, KernelId::attention_dk_dv_bf16_128,
     KernelId::attention_dk_dv_bf16_256},
    {KernelId::attention_dk_dv_f16_64, KernelId::attention_dk_dv_f16_128,
     KernelId::attention_dk_dv_f16_256}};

template <typename Arguments>
keel_status launch_tiles(Stream& stream, const ByWidth& kernels, uint64_t tokens, uint64_t heads,
                         const Arguments& arguments) {
  if (tokens == 0) return KEEL_OK;
  return launch(stream, kernels.of(arguments.problem.width),
                static_cast<uint32_t>(divide_up(tokens, simt::kAttentionTile)), arguments,
                static_cast<uint32_t>(heads));
}

keel_status run_attention(Stream& stream, const keel_op_call& call, void*) {
  const simt::AttentionProblem problem = problem_of(call, /*cu_seqlens=*/3);
  return launch_tiles(stream, kForward.of(call.inputs[0]->dtype), problem.tokens_q, problem.heads,
                      simt::AttentionArguments{problem, address_of(*call.outputs[0]),
                                               address_of(*call.outputs[1])});
}

uint64_t attention_backward_workspace(const keel_op_call& call) {
  return extent(*call.inputs[0], 0) * extent(*call.inputs[0], 1) * sizeof(float);
}

keel_status run_attention_backward(Stream& stream, const keel_op_call& call, void* workspace) {
  const simt::AttentionProblem problem = problem_of(call, /*cu_seqlens=*/6);
  const keel_dtype dtype = call.inputs[0]->dtype;
  const simt::AttentionBackwardArguments arguments = {problem,
                                                      address_of(*call.inputs[3]),
                                                      address_of(*call.inputs[4]),
                                                      address_of(*call.inputs[5]),
                                                      reinterpret_cast<uintptr_t>(workspace),
                                                      address_of(*call.outputs[0]),
                                                      address_of(*call.outputs[1]),
                                                      address_of(*call.outputs[2])};
  keel_status status = KEEL_OK;
  if (problem.tokens_q != 0) {
    const uint64_t rows = problem.tokens_q * problem.heads;
    status = launch(stream, kDelta.of(dtype), blocks_for(stream, rows, simt::kWarps), arguments);
  }
  if (status == KEEL_OK) {
    status = launch_tiles(stream, kOfQueries.of(dtype), problem.tokens_q, problem.heads, arguments);
  }
  if (status == KEEL_OK) {
    status = launch_tiles(stream, kOfKeys.of(dtype), problem.tokens_k, problem.kv_heads, arguments);
  }
  return status;
}

bool supports_attention_merge(const keel_op_call& call) {
  return are_dense(
      call, {KEEL_FLOAT32, KEEL_FLOAT32, KEEL_FLOAT32, KEEL_FLOAT32, KEEL_FLOAT32, KEEL_FLOAT32});
}

keel_status run_attention_merge(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& a = *call.inputs[0];
  const uint64_t rows = extent(a, 0) * extent(a, 1);
  if (rows == 0) return KEEL_OK;
  return launch(stream, KernelId::attention_merge, blocks_for(stream, rows, simt::kWarps),
                simt::AttentionMergeArguments{
                    address_of(a), address_of(*call.inputs[1]), address_of(*call.inputs[2]),
                    address_of(*call.inputs[3]), address_of(*call.outputs[0]),
                    address_of(*call.outputs[1]), extent(a, 0), extent(a, 1), extent(a, 2)});
}

}  // namespace

const Op kAttentionOp = {"simt.attention", supports_attention, nullptr, run_attention};
const Op kAttentionBackwardOp = {"simt.attention_backward", supports_attention_backward,
                                 attention_backward_workspace, run_attention_backward};
const Op kAttentionMergeOp = {"simt.attention_merge", supports_attention_merge, nullptr,
                              run_attention_merge};

}  // namespace keel::gpu
