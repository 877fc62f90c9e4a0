// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding.
#include "backends/gpu/ops.h"

namespace keel::gpu {
namespace {

using simt::KernelId;

// The least number of pairs that a thread processes at a time if all tensors are aligned.
constexpr uint64_t kLanes = 4;

keel_status run_rope(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& x = *call.inputs[0];
  const keel_tensor& cosines = *call.inputs[1];
  const auto pairs = static_cast<uint64_t>(kit::element_count(x) / 2);
  if (pairs == 0) return KEEL_OK;
  const KernelId kernel = x.dtype == KEEL_FLOAT32    ? KernelId::rope_f32
                          : x.dtype == KEEL_BFLOAT16 ? KernelId::rope_bf16
                                                     : KernelId::rope_f16;
  return launch(
      stream, kernel, blocks_for(stream, pairs, simt::kThreads * kLanes),
      simt::RopeArguments{
          address_of(x), address_of(cosines), address_of(*call.inputs[2]),
          address_of(*call.inputs[3]), address_of(*call.outputs[0]),
          static_cast<uint64_t>(x.shape[0]), static_cast<uint64_t>(x.shape[1]),
          static_cast<uint64_t>(cosines.shape[1]), static_cast<uint64_t>(cosines.shape[0]),
          static_cast<uint32_t>(kit::attributes<keel_op_rope_attributes>(call).interleaved),
          static_cast<uint32_t>(kit::attributes<keel_op_rope_attributes>(call).inverse)});
}

}  // namespace

const Op kRopeOp = {"simt.rope", is_dense_float_call, nullptr, run_rope};

}  // namespace keel::gpu
