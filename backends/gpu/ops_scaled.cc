// SPDX-License-Identifier: Apache-2.0
// cast_scaled.
#include <keel/rows.hpp>

#include "backends/gpu/ops.h"

namespace keel::gpu {
namespace {

using simt::KernelId;

constexpr keel_dtype f32 = KEEL_FLOAT32;
constexpr keel_dtype f16 = KEEL_FLOAT16;
constexpr keel_dtype bf16 = KEEL_BFLOAT16;
constexpr keel_dtype e4m3 = KEEL_FLOAT8_E4M3FN;
constexpr keel_dtype e5m2 = KEEL_FLOAT8_E5M2;

struct Cast {
  keel_dtype from, to;
  KernelId kernel;
};
constexpr Cast kCasts[] = {
    {f32, e4m3, KernelId::cast_scaled_f32_e4m3},   {f32, e5m2, KernelId::cast_scaled_f32_e5m2},
    {bf16, e4m3, KernelId::cast_scaled_bf16_e4m3}, {bf16, e5m2, KernelId::cast_scaled_bf16_e5m2},
    {f16, e4m3, KernelId::cast_scaled_f16_e4m3},   {f16, e5m2, KernelId::cast_scaled_f16_e5m2},
    {e4m3, f32, KernelId::cast_scaled_e4m3_f32},   {e5m2, f32, KernelId::cast_scaled_e5m2_f32},
    {e4m3, bf16, KernelId::cast_scaled_e4m3_bf16}, {e5m2, bf16, KernelId::cast_scaled_e5m2_bf16},
    {e4m3, f16, KernelId::cast_scaled_e4m3_f16},   {e5m2, f16, KernelId::cast_scaled_e5m2_f16},
};

// Returns NULL for a pair without a kernel.
const Cast* find_cast(const keel_op_call& call) {
  for (const Cast& cast : kCasts) {
    if (call.inputs[0]->dtype == cast.from && call.outputs[0]->dtype == cast.to) return &cast;
  }
  return nullptr;
}

bool supports_cast_scaled(const keel_op_call& call) {
  return find_cast(call) != nullptr && find_rows(*call.inputs[0]) &&
         kit::is_contiguous(*call.outputs[0]);
}

// A block processes one chunk: kChunk elements, or the multiple of kChunk that gives at most
// kMostChunks, whose largest value one block then selects. Chunks have the tensor's alignment.
constexpr uint64_t kChunk = 8192;
constexpr uint64_t kMostChunks = 4096;

struct Chunks {
  uint64_t size;
  uint64_t count;
};

Chunks chunks_of(uint64_t elements) {
  const uint64_t size = std::max<uint64_t>(1, divide_up(elements, kChunk * kMostChunks)) * kChunk;
  return {size, std::max<uint64_t>(1, divide_up(elements, size))};
}

uint64_t count_of(const keel_op_call& call) {
  return static_cast<uint64_t>(kit::element_count(*call.inputs[0]));
}

uint64_t cast_scaled_workspace(const keel_op_call& call) {
  const uint64_t chunks = chunks_of(count_of(call)).count;
  return chunks == 1 ? 0 : chunks * sizeof(float);
}

keel_status run_cast_scaled(Stream& stream, const keel_op_call& call, void* workspace) {
  simt::CastScaledArguments arguments = {};
  arguments.x = address_of(*call.inputs[0]);
  arguments.scale = address_of(*call.inputs[1]);
  arguments.y = address_of(*call.outputs[0]);
  arguments.amax = address_of(*call.outputs[1]);
  arguments.largest = reinterpret_cast<uintptr_t>(workspace);
  arguments.count = count_of(call);
  const Chunks chunks = chunks_of(arguments.count);
  arguments.chunk = chunks.size;
  arguments.chunks = chunks.count;
  const Rows rows = *find_rows(*call.inputs[0]);
  arguments.columns = static_cast<uint64_t>(rows.columns);
  arguments.gap = static_cast<uint64_t>(rows.step - rows.columns);
  const bool has_aligned_rows = rows.are_dense() || (rows.columns % simt::kCastScaledLanes == 0 &&
                                                     rows.step % simt::kCastScaledLanes == 0);
  arguments.is_aligned = has_aligned_rows && arguments.x % 16 == 0 && arguments.y % 16 == 0 ? 1 : 0;
  const keel_status status =
      launch(stream, find_cast(call)->kernel, blocks_for(stream, chunks.count, 1), arguments);
  if (status != KEEL_OK || chunks.count == 1) return status;
  return launch(stream, KernelId::cast_scaled_join, 1, arguments);
}

}  // namespace

const Op kCastScaledOp = {"simt.cast_scaled", supports_cast_scaled, cast_scaled_workspace,
                          run_cast_scaled};

}  // namespace keel::gpu
