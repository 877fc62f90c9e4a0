// SPDX-License-Identifier: Apache-2.0
#include "backends/ascend/ops.h"

#include "backends/ascend/types.h"

namespace keel::ascend {

const Op* find_op(keel_op_id op) {
  switch (op) {
    case KEEL_OP_FILL:
      return &kFill;
    case KEEL_OP_CAST:
      return &kCast;
    case KEEL_OP_ADD:
      return &kAdd;
    case KEEL_OP_SCALE:
      return &kScale;
    case KEEL_OP_AXPY:
      return &kAxpy;
    case KEEL_OP_SUM:
      return &kSum;
    case KEEL_OP_MATMUL:
      return &kMatmul;
    case KEEL_OP_BATCHED_MATMUL:
      return &kBatchedMatmul;
    case KEEL_OP_GELU:
      return &kGelu;
    case KEEL_OP_BIAS_GELU:
      return &kBiasGelu;
    case KEEL_OP_SWIGLU:
      return &kSwiglu;
    case KEEL_OP_SOFTMAX:
      return &kSoftmax;
    case KEEL_OP_LAYER_NORM:
      return &kLayerNorm;
    case KEEL_OP_RMS_NORM:
      return &kRmsNorm;
    case KEEL_OP_EMBEDDING:
      return &kEmbedding;
    case KEEL_OP_ROPE:
      return &kRope;
    case KEEL_OP_ADAMW:
      return &kAdamw;
    case KEEL_OP_TRANSPOSE:
      return &kTranspose;
    case KEEL_OP_CLAMP:
      return &kClamp;
    default:
      return nullptr;
  }
}

View Temporaries::take(aclDataType type, const View& like, uint64_t element_bytes) {
  const View view = dense_like(next_, type, like);
  uint64_t bytes = element_bytes;
  for (uint32_t axis = 0; axis < view.rank; ++axis) {
    bytes *= static_cast<uint64_t>(view.dims[axis]);
  }
  next_ += rounded(bytes);
  return view;
}

bool is_empty(const keel_op_call& call) {
  for (uint32_t i = 0; i < call.output_count; ++i) {
    if (kit::element_count(*call.outputs[i]) != 0) return false;
  }
  return true;
}

bool are_plain(const keel_op_call& call) {
  if (is_empty(call)) return true;
  const auto is_plain = [](const keel_tensor& tensor) {
    if (type_of(tensor.dtype) == ACL_DT_UNDEFINED) return false;
    for (uint32_t axis = 0; axis < tensor.rank; ++axis) {
      if (tensor.shape[axis] == 0) return false;
      if (tensor.shape[axis] != 1 && tensor.strides[axis] == 0) return false;
    }
    return true;
  };
  for (uint32_t i = 0; i < call.input_count; ++i) {
    if (call.inputs[i] != nullptr && !is_plain(*call.inputs[i])) return false;
  }
  for (uint32_t i = 0; i < call.output_count; ++i) {
    if (!is_plain(*call.outputs[i])) return false;
  }
  return true;
}

bool is_16_bit(keel_dtype dtype) {
  return dtype == KEEL_FLOAT16 || dtype == KEEL_BFLOAT16;
}

uint64_t temporaries_like(const keel_tensor& tensor, uint64_t count) {
  return count * Temporaries::rounded(4 * static_cast<uint64_t>(kit::element_count(tensor)));
}

}  // namespace keel::ascend
