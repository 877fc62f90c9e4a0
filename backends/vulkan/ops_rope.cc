// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding.
#include "backends/vulkan/ops.h"

namespace keel::vulkan {

namespace {

keel_status run_rope(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& table = *call.inputs[1];
  const keel_tensor& y = *call.outputs[0];
  struct {
    uint64_t x, cosines, sines, positions, y;
    uint32_t count, span, heads, half_width;
    int32_t table_rows;
    uint32_t interleaved;
    float direction;
  } arguments = {address_of(*call.inputs[0]),
                 address_of(table),
                 address_of(*call.inputs[2]),
                 address_of(*call.inputs[3]),
                 address_of(y),
                 0,
                 0,
                 static_cast<uint32_t>(y.shape[1]),
                 static_cast<uint32_t>(table.shape[1]),
                 static_cast<int32_t>(table.shape[0]),
                 static_cast<uint32_t>(kit::attributes<keel_op_rope_attributes>(call).interleaved),
                 kit::attributes<keel_op_rope_attributes>(call).inverse != 0 ? -1.0f : 1.0f};
  return run_elements(stream, stored_key(y.dtype, Shader::kRope, Shader::kRope16), arguments,
                      kit::element_count(y) / 2);
}

}  // namespace

const Op kRopeOp = {"vulkan.rope", supports_floats, nullptr, run_rope};

}  // namespace keel::vulkan
