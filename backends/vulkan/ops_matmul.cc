// SPDX-License-Identifier: Apache-2.0
// Matrix products.
#include <algorithm>
#include <array>
#include <keel/packed_weights.hpp>

#include "backends/vulkan/ops.h"

namespace keel::vulkan {

namespace {

// Whether |tensor| is a matrix with contiguous rows and a row stride that fits 32 bits.
bool is_matrix(const keel_tensor& tensor, keel_dtype dtype) {
  if (tensor.rank != 2 || tensor.dtype != dtype) return false;
  if (tensor.shape[0] == 0 || tensor.shape[1] == 0) return true;
  if (tensor.shape[1] != 1 && tensor.strides[1] != 1) return false;
  if (tensor.shape[0] != 1 && tensor.strides[0] < tensor.shape[1]) return false;
  return kit::span_bytes(tensor) / kit::dtype_size(dtype) < static_cast<uint64_t>(kMaxElements);
}

uint32_t row_stride(const keel_tensor& tensor) {
  return static_cast<uint32_t>(tensor.shape[0] == 1 ? tensor.shape[1] : tensor.strides[0]);
}

const keel_tensor* bias_of(const keel_op_call& call) {
  return call.input_count > 2 ? call.inputs[2] : nullptr;
}

// The dtypes of products: |in| of a and b, |out| of c.
bool is_multiplied(const Device& device, keel_dtype in, keel_dtype out) {
  if (in == KEEL_FLOAT32) return out == KEEL_FLOAT32;
  return (in == KEEL_FLOAT16 || in == KEEL_BFLOAT16) && (out == in || out == KEEL_FLOAT32) &&
         device.physical().storage_16bit;
}

bool supports_matmul(const Device& device, const keel_op_call& call) {
  const keel_dtype in = call.inputs[0]->dtype;
  const keel_dtype out = call.outputs[0]->dtype;
  const keel_tensor* bias = bias_of(call);
  return is_multiplied(device, in, out) && is_matrix(*call.inputs[0], in) &&
         is_matrix(*call.inputs[1], in) && is_matrix(*call.outputs[0], out) &&
         (bias == nullptr || is_dense(*bias, in));
}

// Push constants of all kernels.
struct Arguments {
  uint64_t a, b, c, bias;
  uint32_t m, n, k, a_stride, b_stride, c_stride;
  float alpha, beta;
  uint32_t has_bias, a_offset, b_offset;
  uint32_t a_batch, b_batch, c_batch;
  uint32_t activation;
};
static_assert(sizeof(Arguments) <= kPushConstantBytes);

uint32_t divide_up(uint32_t a, uint32_t b) {
  return (a + b - 1) / b;
}

// Dispatches |batch| products, one per row of the grid.
keel_status dispatch_tiles(Stream& stream, PipelineKey key, const Arguments& arguments,
                           uint32_t batch, uint32_t tile_rows, uint32_t tile_columns,
                           const Stream::Texels* texels) {
  const uint64_t tiles =
      uint64_t{divide_up(arguments.m, tile_rows)} * divide_up(arguments.n, tile_columns);
  const auto groups = static_cast<uint32_t>(
      std::min<uint64_t>(tiles, stream.device().physical().max_workgroup_count));
  return stream.dispatch(key, &arguments, sizeof(arguments), groups, batch, texels);
}

// Finds the texel views of a and b: vectors if both begin and step at multiples of 16 bytes.
// Returns false if the device or a block has no views. |a| and |b| are the first matrices of a
// batch; a block holds the whole tensor.
bool find_texels(Device& device, const keel_tensor& a, const keel_tensor& b, Arguments* arguments,
                 Stream::Texels* out_texels, bool* out_scalar) {
  if (device.physical().max_texels == 0) return false;
  const keel_tensor* tensors[] = {&a, &b};
  const uint32_t batch_strides[] = {arguments->a_batch, arguments->b_batch};
  std::array<BufferByte, 2> places;
  bool vectors = true;
  for (uint32_t i = 0; i < places.size(); ++i) {
    const uint64_t bytes = kit::span_bytes(*tensors[i]);
    if (!device.memory().find_device(kit::first_element(*tensors[i]), bytes, &places[i]) ||
        places[i].scalars == VK_NULL_HANDLE) {
      return false;
    }
    vectors &=
        places[i].offset % 16 == 0 && row_stride(*tensors[i]) % 4 == 0 && batch_strides[i] % 4 == 0;
  }
  arguments->a_offset = static_cast<uint32_t>(places[0].offset / sizeof(float));
  arguments->b_offset = static_cast<uint32_t>(places[1].offset / sizeof(float));
  for (uint32_t i = 0; i < places.size(); ++i) {
    (*out_texels)[i] = vectors ? places[i].vectors : places[i].scalars;
  }
  *out_scalar = !vectors;
  return true;
}

// Products of one shape; strides in elements between consecutive matrices.
struct Batch {
  bool batched;
  uint32_t count, a, b, c;
};

// |a|, |b|, |c| belong to the first product.
keel_status run_products(Stream& stream, const keel_op_call& call, const keel_tensor& a,
                         const keel_tensor& b, const keel_tensor& c, const keel_tensor* bias,
                         const Batch& batch) {
  // The first attributes of matmul are those of batched_matmul.
  const auto attributes = kit::attributes<keel_op_batched_matmul_attributes>(call);
  const bool trans_a = attributes.trans_a != 0;
  const bool trans_b = attributes.trans_b != 0;
  Arguments arguments = {
      address_of(a),
      address_of(b),
      address_of(c),
      bias == nullptr ? 0 : address_of(*bias),
      static_cast<uint32_t>(c.shape[0]),
      static_cast<uint32_t>(c.shape[1]),
      static_cast<uint32_t>(a.shape[trans_a ? 0 : 1]),
      row_stride(a),
      row_stride(b),
      row_stride(c),
      static_cast<float>(attributes.alpha),
      static_cast<float>(attributes.beta),
      bias == nullptr ? 0U : 1U,
      0,
      0,
      batch.a,
      batch.b,
      batch.c,
      batch.batched
          ? 0U
          : static_cast<uint32_t>(kit::attributes<keel_op_matmul_attributes>(call).activation)};
  const uint32_t batched = batch.batched ? 32U : 0U;
  const uint32_t variant = (trans_a ? 1U : 0U) | (trans_b ? 2U : 0U) |
                           (bias != nullptr || arguments.beta != 0.0F ? 4U : 0U) | batched;
  if (a.dtype != KEEL_FLOAT32) {
    const uint32_t types =
        (a.dtype == KEEL_BFLOAT16 ? 1U : 0U) | (c.dtype == KEEL_FLOAT32 ? 2U : 0U);
    return dispatch_tiles(stream, {Shader::kMatmulShared16, variant | types << 3}, arguments,
                          batch.count, 64, 64, nullptr);
  }
  Device& device = stream.device();
  Stream::Texels texels;
  bool scalar = false;
  if (device.matmul_choice() == MatmulChoice::kShared || arguments.k == 0 ||
      !find_texels(device, a, b, &arguments, &texels, &scalar)) {
    return dispatch_tiles(stream, {Shader::kMatmulShared, variant}, arguments, batch.count, 64, 64,
                          nullptr);
  }
  // A workgroup is one subgroup and computes 32 rows, each lane 8 columns. Uses 16 rows and 4
  // columns if half of either would be idle, and for texels of one float, whose fourfold fetches
  // take seconds to compile at full size.
  const uint32_t lanes = device.pipelines().local_size(Shader::kMatmulTexel);
  const bool small = scalar || arguments.m <= 16 || arguments.n <= 4 * lanes;
  const uint32_t own = (small ? 1U : 0U) | (scalar ? 2U : 0U);
  const auto dispatch_rows = [&](Shader shader) {
    return stream.dispatch({shader, batched}, &arguments, sizeof(arguments),
                           std::min(arguments.m, device.physical().max_workgroup_count),
                           batch.count);
  };
  if ((variant & 4U) != 0) {
    const keel_status begun = dispatch_rows(Shader::kMatmulBegin);
    if (begun != KEEL_OK) return begun;
  }
  const keel_status multiplied =
      dispatch_tiles(stream, {Shader::kMatmulTexel, variant | own << 3}, arguments, batch.count,
                     small ? 16 : 32, (small ? 4 : 8) * lanes, &texels);
  if (multiplied != KEEL_OK || arguments.activation == 0) return multiplied;
  return dispatch_rows(Shader::kMatmulEnd);
}

keel_status run_matmul(Stream& stream, const keel_op_call& call, void*) {
  if (kit::element_count(*call.outputs[0]) == 0) return KEEL_OK;
  return run_products(stream, call, *call.inputs[0], *call.inputs[1], *call.outputs[0],
                      bias_of(call), {false, 1, 0, 0, 0});
}

// ---- batches -----------------------------------------------------------------------

// Matrix number |index| of a batch.
keel_tensor matrix_of(const keel_tensor& tensor, int64_t index) {
  keel_tensor matrix = tensor;
  matrix.rank = 2;
  for (uint32_t axis = 0; axis < 2; ++axis) {
    matrix.shape[axis] = tensor.shape[axis + 1];
    matrix.strides[axis] = tensor.strides[axis + 1];
  }
  matrix.byte_offset +=
      static_cast<uint64_t>(index * tensor.strides[0]) * kit::dtype_size(tensor.dtype);
  return matrix;
}

bool is_batch(const keel_tensor& tensor, keel_dtype dtype) {
  return tensor.rank == 3 && is_matrix(matrix_of(tensor, 0), dtype) &&
         kit::span_bytes(tensor) / kit::dtype_size(dtype) < static_cast<uint64_t>(kMaxElements);
}

// A batch of one has no meaningful stride.
uint32_t batch_stride(const keel_tensor& tensor) {
  return tensor.shape[0] == 1 ? 0 : static_cast<uint32_t>(tensor.strides[0]);
}

bool supports_batched_matmul(const Device& device, const keel_op_call& call) {
  const keel_dtype in = call.inputs[0]->dtype;
  const keel_dtype out = call.outputs[0]->dtype;
  return is_multiplied(device, in, out) && is_batch(*call.inputs[0], in) &&
         is_batch(*call.inputs[1], in) && is_batch(*call.outputs[0], out);
}

keel_status run_batched_matmul(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& a = *call.inputs[0];
  const keel_tensor& b = *call.inputs[1];
  const keel_tensor& c = *call.outputs[0];
  if (kit::element_count(c) == 0) return KEEL_OK;
  constexpr int64_t kMostRows = 65535;  // limit of a grid on any device
  for (int64_t index = 0; index < c.shape[0]; index += kMostRows) {
    const auto count = static_cast<uint32_t>(std::min(kMostRows, c.shape[0] - index));
    const keel_status status =
        run_products(stream, call, matrix_of(a, index), matrix_of(b, index), matrix_of(c, index),
                     nullptr, {true, count, batch_stride(a), batch_stride(b), batch_stride(c)});
    if (status != KEEL_OK) return status;
  }
  return KEEL_OK;
}

// ---- packed weights: as they are ---------------------------------------------------

bool supports_packed_matmul(const Device& device, const keel_op_call& call) {
  return supports_matmul(device, PackedAsMatmul(call).call());
}

keel_status run_packed_matmul(Stream& stream, const keel_op_call& call, void* workspace) {
  return run_matmul(stream, PackedAsMatmul(call).call(), workspace);
}

}  // namespace

const Op kMatmulOp = {"vulkan.matmul", supports_matmul, nullptr, run_matmul};
const Op kBatchedMatmulOp = {"vulkan.batched_matmul", supports_batched_matmul, nullptr,
                             run_batched_matmul};
const Op kPackedMatmulOp = {"vulkan.packed_matmul", supports_packed_matmul, nullptr,
                            run_packed_matmul};

}  // namespace keel::vulkan
