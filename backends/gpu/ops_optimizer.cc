// SPDX-License-Identifier: Apache-2.0
// The norm of a gradient, and clipping by the norm: sum_of_squares, clip.
#include "backends/gpu/ops.h"

namespace keel::gpu {
namespace {

using simt::KernelId;

constexpr keel_dtype f32 = KEEL_FLOAT32;
constexpr keel_dtype f16 = KEEL_FLOAT16;
constexpr keel_dtype bf16 = KEEL_BFLOAT16;

// ---- sum of squares --------------------------------------------------------------

// A block processes one chunk: kChunk elements, or the multiple of kChunk that gives at most
// kMostChunks, whose results one block then combines. Chunks have the tensor's alignment.
constexpr uint64_t kChunk = 8192;
constexpr uint64_t kMostChunks = 4096;

bool supports_sum_of_squares(const keel_op_call& call) {
  const keel_tensor& x = *call.inputs[0];
  return (x.dtype == f32 || x.dtype == bf16 || x.dtype == f16) && kit::is_contiguous(x);
}

struct Chunks {
  uint64_t elements;  // of the tensor
  uint64_t size;
  uint64_t count;
};

Chunks chunks_of(const keel_tensor& x) {
  const auto elements = static_cast<uint64_t>(kit::element_count(x));
  const uint64_t size = std::max<uint64_t>(1, divide_up(elements, kChunk * kMostChunks)) * kChunk;
  return {elements, size, std::max<uint64_t>(1, divide_up(elements, size))};
}

uint64_t sum_of_squares_workspace(const keel_op_call& call) {
  const uint64_t chunks = chunks_of(*call.inputs[0]).count;
  return chunks == 1 ? 0 : 2 * chunks * sizeof(float);
}

keel_status run_sum_of_squares(Stream& stream, const keel_op_call& call, void* workspace) {
  const keel_tensor& x = *call.inputs[0];
  simt::SumOfSquaresArguments arguments = {};
  arguments.x = address_of(x);
  const Chunks chunks = chunks_of(x);
  arguments.count = chunks.elements;
  arguments.chunk = chunks.size;
  arguments.chunks = chunks.count;
  arguments.sums = reinterpret_cast<uintptr_t>(workspace);
  arguments.flags = arguments.sums + arguments.chunks * sizeof(float);
  arguments.before = call.inputs[1] == nullptr ? 0 : address_of(*call.inputs[1]);
  arguments.total = address_of(*call.outputs[0]);
  arguments.found = address_of(*call.outputs[1]);
  const KernelId kernel = x.dtype == f32    ? KernelId::sum_of_squares_f32
                          : x.dtype == bf16 ? KernelId::sum_of_squares_bf16
                                            : KernelId::sum_of_squares_f16;
  const keel_status status =
      launch(stream, kernel, blocks_for(stream, arguments.chunks, 1), arguments);
  if (status != KEEL_OK || arguments.chunks == 1) return status;
  return launch(stream, KernelId::sum_of_squares_join, 1, arguments);
}

// ---- clip ------------------------------------------------------------------------

bool supports_clip(const keel_op_call& call) {
  return is_dense_float_call(call);
}

keel_status run_clip(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& g = *call.inputs[0];
  simt::ClipArguments arguments = {};
  arguments.g = address_of(g);
  arguments.sum_of_squares = address_of(*call.inputs[1]);
  arguments.g_out = address_of(*call.outputs[0]);
  arguments.count = static_cast<uint64_t>(kit::element_count(g));
  arguments.max_norm = static_cast<float>(kit::attributes<keel_op_clip_attributes>(call).max_norm);
  arguments.is_aligned = arguments.g % 16 == 0 && arguments.g_out % 16 == 0 ? 1 : 0;
  if (arguments.count == 0) return KEEL_OK;
  const KernelId kernel = g.dtype == f32    ? KernelId::clip_f32
                          : g.dtype == bf16 ? KernelId::clip_bf16
                                            : KernelId::clip_f16;
  // A thread processes at least four elements at a time if all tensors are aligned.
  return launch(stream, kernel, blocks_for(stream, arguments.count, uint64_t{simt::kThreads} * 4),
                arguments);
}

}  // namespace

const Op kSumOfSquaresOp = {"simt.sum_of_squares", supports_sum_of_squares,
                            sum_of_squares_workspace, run_sum_of_squares};
const Op kClipOp = {"simt.clip", supports_clip, nullptr, run_clip};

}  // namespace keel::gpu
