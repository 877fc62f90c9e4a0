// SPDX-License-Identifier: Apache-2.0
// transpose, and pack_weights, which is a transpose.
#include <algorithm>
#include <keel/packed_weights.hpp>
#include <keel/permutation.hpp>

#include "backends/vulkan/ops.h"

namespace keel::vulkan {

namespace {

// Queried before memory is allocated, when it is unknown whether units may be wider than elements.
bool moves_elements_of(const Device& device, uint32_t bytes) {
  if (bytes == 1) return device.physical().kernels.storage_8bit;
  return bytes != 2 || device.physical().storage_16bit;
}

bool supports_transpose(const Device& device, const keel_op_call& call) {
  const keel_tensor& x = *call.inputs[0];
  const keel_tensor& y = *call.outputs[0];
  const uint32_t bytes = kit::dtype_size(x.dtype);
  return is_dense(y, y.dtype) && moves_elements_of(device, bytes) &&
         kit::span_bytes(x) / bytes < uint64_t{kMaxElements};
}

struct Axis {
  uint32_t extent, from, to;
};

Axis axis_of(const Permutation::Axis& axis) {
  return {static_cast<uint32_t>(axis.extent), static_cast<uint32_t>(axis.from),
          static_cast<uint32_t>(axis.to)};
}

Shader shader_of(uint32_t unit) {
  switch (unit) {
    case 1:
      return Shader::kTranspose1;
    case 2:
      return Shader::kTranspose2;
    case 4:
      return Shader::kTranspose4;
    case 8:
      return Shader::kTranspose8;
    default:
      return Shader::kTranspose16;
  }
}

keel_status run_transpose(Stream& stream, const keel_op_call& call, void*) {
  if (kit::element_count(*call.outputs[0]) == 0) return KEEL_OK;
  const Permutation plan = make_permutation(call, 16);
  struct {
    uint64_t x, y;
    uint32_t count, span, outer_count, columns, column_from;
    Axis row;
    Axis outer[Permutation::kMaxOuter];
  } arguments = {};
  static_assert(sizeof(arguments) <= kPushConstantBytes);
  arguments.x = address_of(*call.inputs[0]);
  arguments.y = address_of(*call.outputs[0]);
  arguments.outer_count = plan.outer_count;
  arguments.columns = static_cast<uint32_t>(plan.column.extent);
  arguments.column_from = static_cast<uint32_t>(plan.column.from);
  arguments.row = axis_of(plan.row);
  for (uint32_t i = 0; i < plan.outer_count; ++i) arguments.outer[i] = axis_of(plan.outer[i]);
  const Shader shader = shader_of(plan.unit);
  if (!plan.tiled) {
    return run_elements(stream, {shader}, arguments,
                        plan.outer_extent() * plan.row.extent * plan.column.extent);
  }
  const int64_t side = plan.unit == 16 ? 16 : 32;
  const int64_t tiles = plan.outer_extent() * ((plan.row.extent + side - 1) / side) *
                        ((plan.column.extent + side - 1) / side);
  arguments.count = static_cast<uint32_t>(tiles);
  const uint32_t groups = std::min(arguments.count, uint32_t{16384});
  return stream.dispatch({shader, 1}, &arguments, sizeof(arguments), groups);
}

bool supports_pack_weights(const Device& device, const keel_op_call& call) {
  return supports_transpose(device, PackAsTranspose(call).call());
}

keel_status run_pack_weights(Stream& stream, const keel_op_call& call, void* workspace) {
  return run_transpose(stream, PackAsTranspose(call).call(), workspace);
}

}  // namespace

const Op kTransposeOp = {"vulkan.transpose", supports_transpose, nullptr, run_transpose};
const Op kPackWeightsOp = {"vulkan.pack_weights", supports_pack_weights, nullptr, run_pack_weights};

}  // namespace keel::vulkan
