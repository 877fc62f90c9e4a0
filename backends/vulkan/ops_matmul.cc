// Matrix products.
#include <algorithm>

#include "backends/vulkan/ops.h"

namespace keel::vulkan {

namespace {

enum { kTransA, kTransB, kAlpha, kBeta };

// The tile of c that one workgroup makes.
struct Tile {
  Shader shader;
  uint32_t rows;
  uint32_t columns;
};

Tile choose_tile(Device& device) {
  const bool subgroup =
      device.matmul_choice() == MatmulChoice::kSubgroup ||
      (device.matmul_choice() == MatmulChoice::kAuto && device.physical().is_cpu());
  if (!subgroup) return {Shader::kMatmulShared, 64, 64};
  return {Shader::kMatmulSubgroup, 8, device.pipelines().local_size(Shader::kMatmulSubgroup)};
}

// A float32 matrix whose rows are contiguous, and lie apart by 32 bits' worth at most.
bool is_matrix(const keel_tensor& tensor) {
  if (tensor.rank != 2 || tensor.dtype != KEEL_FLOAT32) return false;
  if (tensor.shape[0] == 0 || tensor.shape[1] == 0) return true;
  if (tensor.shape[1] != 1 && tensor.strides[1] != 1) return false;
  if (tensor.shape[0] != 1 && tensor.strides[0] < tensor.shape[1]) return false;
  return kit::span_bytes(tensor) / sizeof(float) < static_cast<uint64_t>(kMaxElements);
}

uint32_t row_stride(const keel_tensor& tensor) {
  return static_cast<uint32_t>(tensor.shape[0] == 1 ? tensor.shape[1] : tensor.strides[0]);
}

const keel_tensor* bias_of(const keel_op_call& call) {
  return call.input_count > 2 ? call.inputs[2] : nullptr;
}

bool supports_matmul(const Device&, const keel_op_call& call) {
  const keel_tensor* bias = bias_of(call);
  return is_matrix(*call.inputs[0]) && is_matrix(*call.inputs[1]) && is_matrix(*call.outputs[0]) &&
         (bias == nullptr || is_dense(*bias, KEEL_FLOAT32));
}

keel_status run_matmul(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& a = *call.inputs[0];
  const keel_tensor& b = *call.inputs[1];
  const keel_tensor& c = *call.outputs[0];
  const keel_tensor* bias = bias_of(call);
  const bool trans_a = call.attributes[kTransA].i != 0;
  const bool trans_b = call.attributes[kTransB].i != 0;
  if (kit::element_count(c) == 0) return KEEL_OK;
  struct {
    uint64_t a, b, c, bias;
    uint32_t m, n, k, a_stride, b_stride, c_stride;
    float alpha, beta;
  } arguments = {address_of(a),
                 address_of(b),
                 address_of(c),
                 bias == nullptr ? 0 : address_of(*bias),
                 static_cast<uint32_t>(c.shape[0]),
                 static_cast<uint32_t>(c.shape[1]),
                 static_cast<uint32_t>(a.shape[trans_a ? 0 : 1]),
                 row_stride(a),
                 row_stride(b),
                 row_stride(c),
                 static_cast<float>(call.attributes[kAlpha].f),
                 static_cast<float>(call.attributes[kBeta].f)};
  const uint32_t variant = (trans_a ? 1U : 0U) | (trans_b ? 2U : 0U) | (bias != nullptr ? 4U : 0U) |
                           (arguments.beta != 0.0F ? 8U : 0U);
  Device& device = stream.device();
  const Tile tile = choose_tile(device);
  const uint64_t tiles = uint64_t{(arguments.m + tile.rows - 1) / tile.rows} *
                         ((arguments.n + tile.columns - 1) / tile.columns);
  const auto groups =
      static_cast<uint32_t>(std::min<uint64_t>(tiles, device.physical().max_workgroup_count));
  return stream.dispatch({tile.shader, variant}, &arguments, sizeof(arguments), groups);
}

}  // namespace

const Op kMatmulOp = {"vulkan.matmul", supports_matmul, nullptr, run_matmul};

}  // namespace keel::vulkan
