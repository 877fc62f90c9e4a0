// Table look-up and its gradient.
#include <algorithm>

#include "backends/vulkan/ops.h"

namespace keel::vulkan {

namespace {

bool supports_embedding(const Device&, const keel_op_call& call) {
  return is_dense_float_call(call, /*int_inputs=*/1u << 1);
}

keel_status run_embedding(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& table = *call.inputs[0];
  const keel_tensor& rows = *call.outputs[0];
  const auto count = static_cast<uint32_t>(kit::element_count(rows));
  const Spread dealt = spread(stream.device(), Shader::kEmbedding, count);
  struct {
    uint64_t table, indices, rows;
    uint32_t count, span, width;
    int32_t table_rows;
  } arguments = {address_of(table),
                 address_of(*call.inputs[1]),
                 address_of(rows),
                 count,
                 dealt.span,
                 static_cast<uint32_t>(table.shape[1]),
                 static_cast<int32_t>(table.shape[0])};
  return stream.dispatch({Shader::kEmbedding}, &arguments, sizeof(arguments), dealt.groups);
}

keel_status run_embedding_backward(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& table = *call.outputs[0];
  if (kit::element_count(table) == 0) return KEEL_OK;
  struct {
    uint64_t dout, indices, dtable;
    uint32_t index_count, width, table_rows;
  } arguments = {address_of(*call.inputs[0]),
                 address_of(*call.inputs[1]),
                 address_of(table),
                 static_cast<uint32_t>(call.inputs[1]->shape[0]),
                 static_cast<uint32_t>(table.shape[1]),
                 static_cast<uint32_t>(table.shape[0])};
  return stream.dispatch(
      {Shader::kEmbeddingBackward}, &arguments, sizeof(arguments),
      std::min(arguments.table_rows, stream.device().physical().max_workgroup_count));
}

}  // namespace

const Op kEmbeddingOp = {"vulkan.embedding", supports_embedding, nullptr, run_embedding};
const Op kEmbeddingBackwardOp = {"vulkan.embedding_backward", supports_embedding, nullptr,
                                 run_embedding_backward};

}  // namespace keel::vulkan
