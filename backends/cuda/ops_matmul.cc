// Matrix products.
#include "backends/cuda/ops.h"

namespace keel::cuda {
namespace {

using simt::KernelId;

enum { kTransA, kTransB, kAlpha, kBeta, kActivation };

// A matrix whose rows are contiguous.
bool is_matrix(const keel_tensor& tensor, keel_dtype dtype) {
  if (tensor.rank != 2 || tensor.dtype != dtype) return false;
  if (tensor.shape[0] == 0 || tensor.shape[1] == 0) return true;
  if (tensor.shape[1] != 1 && tensor.strides[1] != 1) return false;
  return tensor.shape[0] == 1 || tensor.strides[0] >= tensor.shape[1];
}

uint64_t row_stride(const keel_tensor& tensor) {
  return static_cast<uint64_t>(tensor.shape[0] == 1 ? tensor.shape[1] : tensor.strides[0]);
}

const keel_tensor* bias_of(const keel_op_call& call) {
  return call.input_count > 2 ? call.inputs[2] : nullptr;
}

uint64_t tiles_of(const keel_tensor& c) {
  return divide_up(static_cast<uint64_t>(c.shape[0]), simt::kMatmulTile) *
         divide_up(static_cast<uint64_t>(c.shape[1]), simt::kMatmulTile);
}

// The dtypes that products take: of a and b |in|, of c |out|.
bool is_multiplied(keel_dtype in, keel_dtype out) {
  if (in != KEEL_FLOAT32 && in != KEEL_BFLOAT16 && in != KEEL_FLOAT16) return false;
  return out == in || out == KEEL_FLOAT32;
}

// One kernel for each pair of those.
struct KernelsOfDtypes {
  KernelId f32, bf16, bf16_f32, f16, f16_f32;

  KernelId of(keel_dtype in, keel_dtype out) const {
    if (in == KEEL_FLOAT32) return f32;
    if (in == KEEL_BFLOAT16) return out == KEEL_FLOAT32 ? bf16_f32 : bf16;
    return out == KEEL_FLOAT32 ? f16_f32 : f16;
  }
};
constexpr KernelsOfDtypes kMatmul = {KernelId::matmul_f32, KernelId::matmul_bf16,
                                     KernelId::matmul_bf16_f32, KernelId::matmul_f16,
                                     KernelId::matmul_f16_f32};
constexpr KernelsOfDtypes kBatchedMatmul = {
    KernelId::batched_matmul_f32, KernelId::batched_matmul_bf16, KernelId::batched_matmul_bf16_f32,
    KernelId::batched_matmul_f16, KernelId::batched_matmul_f16_f32};

bool supports_matmul(const keel_op_call& call) {
  const keel_dtype in = call.inputs[0]->dtype;
  const keel_dtype out = call.outputs[0]->dtype;
  const keel_tensor* const bias = bias_of(call);
  return is_multiplied(in, out) && is_matrix(*call.inputs[0], in) &&
         is_matrix(*call.inputs[1], in) && is_matrix(*call.outputs[0], out) &&
         (bias == nullptr || is_dense(*bias, in)) &&
         tiles_of(*call.outputs[0]) <= 0x7fffffff;  // of a grid's x
}

// Of the product of |a| and |b|; without a bias or an activation.
simt::MatmulArguments arguments_of(const keel_op_call& call, const keel_tensor& a,
                                   const keel_tensor& b, const keel_tensor& c) {
  const bool trans_a = call.attributes[kTransA].i != 0;
  const bool trans_b = call.attributes[kTransB].i != 0;
  simt::MatmulArguments arguments = {};
  arguments.a = address_of(a);
  arguments.b = address_of(b);
  arguments.c = address_of(c);
  arguments.m = static_cast<uint64_t>(c.shape[0]);
  arguments.n = static_cast<uint64_t>(c.shape[1]);
  arguments.k = static_cast<uint64_t>(a.shape[trans_a ? 0 : 1]);
  arguments.a_row = trans_a ? 1 : row_stride(a);
  arguments.a_column = trans_a ? row_stride(a) : 1;
  arguments.b_row = trans_b ? 1 : row_stride(b);
  arguments.b_column = trans_b ? row_stride(b) : 1;
  arguments.c_row = row_stride(c);
  arguments.alpha = static_cast<float>(call.attributes[kAlpha].f);
  arguments.beta = static_cast<float>(call.attributes[kBeta].f);
  return arguments;
}

keel_status run_matmul(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& a = *call.inputs[0];
  const keel_tensor& c = *call.outputs[0];
  const keel_tensor* const bias = bias_of(call);
  if (kit::element_count(c) == 0) return KEEL_OK;
  simt::MatmulArguments arguments = arguments_of(call, a, *call.inputs[1], c);
  arguments.bias = bias == nullptr ? 0 : address_of(*bias);
  arguments.activation = static_cast<uint32_t>(call.attributes[kActivation].i);
  return launch(stream, kMatmul.of(a.dtype, c.dtype), static_cast<uint32_t>(tiles_of(c)),
                arguments);
}

// ---- batches -----------------------------------------------------------------------

// Any matrix of a batch: they differ in their address alone.
keel_tensor matrix_of(const keel_tensor& tensor) {
  keel_tensor matrix = tensor;
  matrix.rank = 2;
  for (uint32_t axis = 0; axis < 2; ++axis) {
    matrix.shape[axis] = tensor.shape[axis + 1];
    matrix.strides[axis] = tensor.strides[axis + 1];
  }
  return matrix;
}

bool supports_batched_matmul(const keel_op_call& call) {
  const keel_dtype in = call.inputs[0]->dtype;
  const keel_dtype out = call.outputs[0]->dtype;
  if (call.inputs[0]->rank != 3 || !is_multiplied(in, out)) return false;
  const keel_tensor c = matrix_of(*call.outputs[0]);
  return is_matrix(matrix_of(*call.inputs[0]), in) && is_matrix(matrix_of(*call.inputs[1]), in) &&
         is_matrix(c, out) && tiles_of(c) <= 0x7fffffff;
}

keel_status run_batched_matmul(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& a = *call.inputs[0];
  const keel_tensor& b = *call.inputs[1];
  const keel_tensor& c = *call.outputs[0];
  if (kit::element_count(c) == 0) return KEEL_OK;
  const keel_tensor first = matrix_of(c);
  const simt::BatchedMatmulArguments arguments = {
      arguments_of(call, matrix_of(a), matrix_of(b), first), static_cast<uint64_t>(c.shape[0]),
      static_cast<uint64_t>(a.strides[0]), static_cast<uint64_t>(b.strides[0]),
      static_cast<uint64_t>(c.strides[0])};
  constexpr uint64_t kMostBlocksY = 65535;
  return launch(stream, kBatchedMatmul.of(a.dtype, c.dtype), static_cast<uint32_t>(tiles_of(first)),
                arguments, static_cast<uint32_t>(std::min(arguments.batch, kMostBlocksY)));
}

}  // namespace

const Op kMatmulOp = {"simt.matmul", supports_matmul, nullptr, run_matmul};
const Op kBatchedMatmulOp = {"simt.batched_matmul", supports_batched_matmul, nullptr,
                             run_batched_matmul};

}  // namespace keel::cuda
