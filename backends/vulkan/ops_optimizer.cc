// SPDX-License-Identifier: Apache-2.0
// The norm of a gradient, and clipping by the norm: sum_of_squares, clip.
#include <algorithm>

#include "backends/vulkan/ops.h"

namespace keel::vulkan {

namespace {

// ---- sum of squares --------------------------------------------------------------

// A workgroup processes one chunk: kChunk elements, or the multiple of kChunk that gives at most
// kMostChunks, whose results one workgroup then combines.
constexpr int64_t kChunk = 4096;
constexpr int64_t kMostChunks = 4096;

struct Chunks {
  int64_t elements;  // of the tensor
  int64_t size;
  int64_t count;
};

Chunks chunks_of(const keel_tensor& x) {
  const int64_t elements = kit::element_count(x);
  const int64_t most = kChunk * kMostChunks;
  const int64_t size = std::max<int64_t>(1, (elements + most - 1) / most) * kChunk;
  return {elements, size, std::max<int64_t>(1, (elements + size - 1) / size)};
}

uint64_t sum_of_squares_workspace(const keel_op_call& call) {
  const int64_t chunks = chunks_of(*call.inputs[0]).count;
  return chunks == 1 ? 0 : 2 * static_cast<uint64_t>(chunks) * sizeof(float);
}

keel_status run_sum_of_squares(Stream& stream, const keel_op_call& call, void* workspace) {
  const Chunks chunks = chunks_of(*call.inputs[0]);
  const uint64_t scratch = reinterpret_cast<uintptr_t>(workspace);
  struct {
    uint64_t x, sums, flags, before, total, found;
    uint32_t count, chunk, chunks, has_before;
  } arguments = {address_of(*call.inputs[0]),
                 scratch,
                 scratch + static_cast<uint64_t>(chunks.count) * sizeof(float),
                 call.inputs[1] == nullptr ? 0 : address_of(*call.inputs[1]),
                 address_of(*call.outputs[0]),
                 address_of(*call.outputs[1]),
                 static_cast<uint32_t>(chunks.elements),
                 static_cast<uint32_t>(chunks.size),
                 static_cast<uint32_t>(chunks.count),
                 call.inputs[1] == nullptr ? 0U : 1U};
  const auto groups = static_cast<uint32_t>(
      std::min<int64_t>(chunks.count, stream.device().physical().max_workgroup_count));
  const PipelineKey key =
      stored_key(call.inputs[0]->dtype, Shader::kSumOfSquares, Shader::kSumOfSquares16);
  const keel_status status = stream.dispatch(key, &arguments, sizeof(arguments), groups);
  if (status != KEEL_OK || chunks.count == 1) return status;
  return stream.dispatch({Shader::kSumOfSquares, /*variant=*/1}, &arguments, sizeof(arguments), 1);
}

// ---- clip ------------------------------------------------------------------------

keel_status run_clip(Stream& stream, const keel_op_call& call, void*) {
  const auto count = static_cast<uint32_t>(kit::element_count(*call.inputs[0]));
  const PipelineKey key = stored_key(call.inputs[0]->dtype, Shader::kClip, Shader::kClip16);
  const Spread dealt = spread(stream.device(), key.shader, count);
  struct {
    uint64_t g, sum_of_squares, g_out;
    uint32_t count, span;
    float max_norm;
  } arguments = {address_of(*call.inputs[0]),
                 address_of(*call.inputs[1]),
                 address_of(*call.outputs[0]),
                 count,
                 dealt.span,
                 static_cast<float>(kit::attributes<keel_op_clip_attributes>(call).max_norm)};
  return stream.dispatch(key, &arguments, sizeof(arguments), dealt.groups);
}

}  // namespace

const Op kSumOfSquaresOp = {"vulkan.sum_of_squares", supports_floats, sum_of_squares_workspace,
                            run_sum_of_squares};
const Op kClipOp = {"vulkan.clip", supports_floats, nullptr, run_clip};

}  // namespace keel::vulkan
