// SPDX-License-Identifier: Apache-2.0
// Table look-up and its gradient.
#include "backends/gpu/ops.h"

namespace keel::gpu {
namespace {

using simt::KernelId;

keel_status run_embedding(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& table = *call.inputs[0];
  const keel_tensor& out = *call.outputs[0];
  if (kit::element_count(out) == 0) return KEEL_OK;
  const uint64_t row_bytes = static_cast<uint64_t>(table.shape[1]) * kit::dtype_size(table.dtype);
  // A row is copied in the largest unit that divides rows and addresses.
  const uint64_t all = row_bytes | address_of(table) | address_of(out);
  const uint64_t unit = all % 16 == 0 ? 16 : all % 4 == 0 ? 4 : 2;
  const KernelId kernel = unit == 16  ? KernelId::embedding_16
                          : unit == 4 ? KernelId::embedding_4
                                      : KernelId::embedding_2;
  const auto count = static_cast<uint64_t>(out.shape[0]);
  return launch(
      stream, kernel, blocks_for(stream, count, simt::kWarps),
      simt::EmbeddingArguments{address_of(table), address_of(*call.inputs[1]), address_of(out),
                               static_cast<uint64_t>(table.shape[0]), row_bytes / unit, count,
                               kit::attributes<keel_op_embedding_attributes>(call).first});
}

keel_status run_embedding_backward(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& rows = *call.inputs[0];
  const keel_tensor& table = *call.outputs[0];
  const uint64_t bytes = kit::span_bytes(table);
  if (bytes == 0) return KEEL_OK;
  const float zero = 0;
  const keel_status status = stream.fill(kit::first_element(table), &zero, sizeof(zero), bytes);
  const auto count = static_cast<uint64_t>(call.inputs[1]->shape[0]);
  if (status != KEEL_OK || count == 0) return status;
  const KernelId kernel = rows.dtype == KEEL_FLOAT32    ? KernelId::embedding_backward_f32
                          : rows.dtype == KEEL_BFLOAT16 ? KernelId::embedding_backward_bf16
                                                        : KernelId::embedding_backward_f16;
  return launch(stream, kernel, blocks_for(stream, count, simt::kWarps),
                simt::EmbeddingBackwardArguments{
                    address_of(rows), address_of(*call.inputs[1]), address_of(table),
                    static_cast<uint64_t>(table.shape[0]), static_cast<uint64_t>(table.shape[1]),
                    count, kit::attributes<keel_op_embedding_backward_attributes>(call).first});
}

}  // namespace

const Op kEmbeddingOp = {"simt.embedding", is_dense_float_call, nullptr, run_embedding};
const Op kEmbeddingBackwardOp = {"simt.embedding_backward", is_dense_float_call, nullptr,
                                 run_embedding_backward};

}  // namespace keel::gpu
