// SPDX-License-Identifier: Apache-2.0
// Table look-up and its gradient.
#include <algorithm>

#include "backends/vulkan/ops.h"

namespace keel::vulkan {

namespace {

// The rows that are read or added are float32 or of a 16-bit float type.
bool supports_embedding(const Device& device, const keel_op_call& call) {
  const keel_tensor& rows = *call.inputs[0];
  const bool is_known =
      rows.dtype == KEEL_FLOAT32 || ((rows.dtype == KEEL_FLOAT16 || rows.dtype == KEEL_BFLOAT16) &&
                                     device.physical().storage_16bit);
  // The schema derives the other dtypes from this dtype.
  return is_known && is_dense(rows, rows.dtype) && is_dense(*call.inputs[1], KEEL_INT32) &&
         is_dense(*call.outputs[0], call.outputs[0]->dtype);
}

keel_status run_embedding(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& table = *call.inputs[0];
  const keel_tensor& rows = *call.outputs[0];
  const auto count = static_cast<uint32_t>(kit::element_count(rows));
  const Shader shader =
      kit::dtype_size(table.dtype) == 2 ? Shader::kEmbedding2 : Shader::kEmbedding4;
  const Spread dealt = spread(stream.device(), shader, count);
  struct {
    uint64_t table, indices, rows;
    uint32_t count, span, width, table_rows;
    int32_t first;
  } arguments = {address_of(table),
                 address_of(*call.inputs[1]),
                 address_of(rows),
                 count,
                 dealt.span,
                 static_cast<uint32_t>(table.shape[1]),
                 static_cast<uint32_t>(table.shape[0]),
                 static_cast<int32_t>(kit::attributes<keel_op_embedding_attributes>(call).first)};
  return stream.dispatch({shader}, &arguments, sizeof(arguments), dealt.groups);
}

keel_status run_embedding_backward(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& rows = *call.inputs[0];
  const keel_tensor& table = *call.outputs[0];
  if (kit::element_count(table) == 0) return KEEL_OK;
  struct {
    uint64_t dout, indices, dtable;
    uint32_t index_count, width, table_rows;
    int32_t first;
  } arguments = {
      address_of(rows),
      address_of(*call.inputs[1]),
      address_of(table),
      static_cast<uint32_t>(call.inputs[1]->shape[0]),
      static_cast<uint32_t>(table.shape[1]),
      static_cast<uint32_t>(table.shape[0]),
      static_cast<int32_t>(kit::attributes<keel_op_embedding_backward_attributes>(call).first)};
  const PipelineKey key =
      rows.dtype == KEEL_FLOAT32
          ? PipelineKey{Shader::kEmbeddingBackward}
          : PipelineKey{Shader::kEmbeddingBackward16, rows.dtype == KEEL_BFLOAT16 ? 1U : 0U};
  return stream.dispatch(
      key, &arguments, sizeof(arguments),
      std::min(arguments.table_rows, stream.device().physical().max_workgroup_count));
}

}  // namespace

const Op kEmbeddingOp = {"vulkan.embedding", supports_embedding, nullptr, run_embedding};
const Op kEmbeddingBackwardOp = {"vulkan.embedding_backward", supports_embedding, nullptr,
                                 run_embedding_backward};

}  // namespace keel::vulkan
