// SPDX-License-Identifier: Apache-2.0
// transpose, and pack_weights, which is a transpose.
#include <array>
#include <keel/packed_weights.hpp>
#include <keel/permutation.hpp>

#include "backends/gpu/ops.h"

namespace keel::gpu {
namespace {

using simt::KernelId;

bool supports_transpose(const keel_op_call& call) {
  return kit::is_contiguous(*call.outputs[0]);
}

// Indexed by the logarithm of the unit.
constexpr std::array kEach = {KernelId::transpose_1, KernelId::transpose_2, KernelId::transpose_4,
                              KernelId::transpose_8, KernelId::transpose_16};
constexpr std::array kTiles = {KernelId::transpose_tiles_1, KernelId::transpose_tiles_2,
                               KernelId::transpose_tiles_4, KernelId::transpose_tiles_8,
                               KernelId::transpose_tiles_16};

simt::TransposeAxis axis_of(const Permutation::Axis& axis) {
  return {static_cast<uint64_t>(axis.extent), static_cast<uint64_t>(axis.from),
          static_cast<uint64_t>(axis.to)};
}

keel_status run_transpose(Stream& stream, const keel_op_call& call, void*) {
  if (kit::element_count(*call.outputs[0]) == 0) return KEEL_OK;
  const Permutation plan = make_permutation(call, 16);
  simt::TransposeArguments arguments = {};
  arguments.x = address_of(*call.inputs[0]);
  arguments.y = address_of(*call.outputs[0]);
  arguments.row = axis_of(plan.row);
  arguments.column = axis_of(plan.column);
  static_assert(simt::kTransposeOuter == Permutation::kMaxOuter);
  for (uint32_t i = 0; i < plan.outer_count; ++i) arguments.outer[i] = axis_of(plan.outer[i]);
  arguments.outer_count = plan.outer_count;
  const auto outer = static_cast<uint64_t>(plan.outer_extent());
  arguments.count = outer * arguments.row.extent * arguments.column.extent;
  arguments.tiles = outer * divide_up(arguments.row.extent, simt::kTransposeTile) *
                    divide_up(arguments.column.extent, simt::kTransposeTile);
  size_t size = 0;
  while (uint32_t{1} << size < plan.unit) ++size;
  if (plan.tiled)
    return launch(stream, kTiles[size], blocks_for(stream, arguments.tiles, 1), arguments);
  return launch(stream, kEach[size], blocks_for(stream, arguments.count, simt::kThreads * 2),
                arguments);
}

bool supports_pack_weights(const keel_op_call& call) {
  return supports_transpose(PackAsTranspose(call).call());
}

keel_status run_pack_weights(Stream& stream, const keel_op_call& call, void* workspace) {
  return run_transpose(stream, PackAsTranspose(call).call(), workspace);
}

}  // namespace

const Op kTransposeOp = {"simt.transpose", supports_transpose, nullptr, run_transpose};
const Op kPackWeightsOp = {"simt.pack_weights", supports_pack_weights, nullptr, run_pack_weights};

}  // namespace keel::gpu
