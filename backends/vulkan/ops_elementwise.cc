// SPDX-License-Identifier: Apache-2.0
// Element-wise operators: fill, cast, add, scale, axpy, adamw.
#include <cmath>
#include <cstring>
#include <keel/float_types.hpp>
#include <keel/plugin/numbers.hpp>

#include "backends/vulkan/ops.h"

namespace keel::vulkan {

namespace {

// ---- fill ----------------------------------------------------------------------

bool supports_fill(const Device&, const keel_op_call& call) {
  const keel_tensor& y = *call.outputs[0];
  switch (y.dtype) {
    case KEEL_FLOAT32:
    case KEEL_FLOAT16:
    case KEEL_BFLOAT16:
    case KEEL_INT32:
    case KEEL_INT64:
    case KEEL_UINT8:
      return kit::is_contiguous(y);
    default:
      return false;
  }
}

template <typename Value>
void put(char* out, Value value) {
  std::memcpy(out, &value, sizeof(value));
}

keel_status run_fill(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& y = *call.outputs[0];
  const uint64_t bytes = kit::span_bytes(y);
  if (bytes == 0) return KEEL_OK;
  const double value = kit::attributes<keel_op_fill_attributes>(call).value;
  char pattern[8] = {};
  switch (y.dtype) {
    case KEEL_FLOAT32:
      put(pattern, static_cast<float>(value));
      break;
    case KEEL_FLOAT16:
      put(pattern, to_float16(static_cast<float>(value)));
      break;
    case KEEL_BFLOAT16:
      put(pattern, to_bfloat16(static_cast<float>(value)));
      break;
    case KEEL_INT32:
      put(pattern, static_cast<int32_t>(value));
      break;
    case KEEL_INT64:
      put(pattern, static_cast<int64_t>(value));
      break;
    default:
      put(pattern, static_cast<uint8_t>(value));
      break;
  }
  return stream.fill(kit::first_element(y), pattern, kit::dtype_size(y.dtype), bytes);
}

// ---- cast ----------------------------------------------------------------------

// The shader's number of a type; -1 for unsupported types.
int cast_type(keel_dtype dtype) {
  switch (dtype) {
    case KEEL_FLOAT32:
      return 0;
    case KEEL_FLOAT16:
      return 1;
    case KEEL_BFLOAT16:
      return 2;
    case KEEL_INT32:
      return 3;
    default:
      return -1;
  }
}

// Whether the shader of the pairs that models cast all the time takes the call; other calls are
// elementwise's.
bool is_usual_cast(const keel_op_call& call) {
  return cast_type(call.inputs[0]->dtype) >= 0 && cast_type(call.outputs[0]->dtype) >= 0 &&
         is_dense_call(call);
}

bool supports_cast(const Device& device, const keel_op_call& call) {
  if (is_usual_cast(call) && device.physical().storage_16bit) return true;
  return kElementwiseOp.supports(device, kit::CopyCall(call).call());
}

uint64_t cast_workspace(const keel_op_call& call) {
  return is_usual_cast(call) ? 0 : kElementwiseOp.workspace(kit::CopyCall(call).call());
}

keel_status run_cast(Stream& stream, const keel_op_call& call, void* workspace) {
  if (!is_usual_cast(call)) {
    return kElementwiseOp.run(stream, kit::CopyCall(call).call(), workspace);
  }
  const keel_tensor& x = *call.inputs[0];
  const keel_tensor& y = *call.outputs[0];
  return convert(stream, address_of(x), x.dtype, address_of(y), y.dtype, kit::element_count(y));
}

// ---- arithmetic ------------------------------------------------------------------

keel_status run_add(Stream& stream, const keel_op_call& call, void*) {
  struct {
    uint64_t a, b, c;
    uint32_t count, span;
  } arguments = {address_of(*call.inputs[0]), address_of(*call.inputs[1]),
                 address_of(*call.outputs[0]), 0, 0};
  return run_elements(stream, stored_key(call.inputs[0]->dtype, Shader::kAdd, Shader::kAdd16),
                      arguments, kit::element_count(*call.outputs[0]));
}

keel_status run_scale(Stream& stream, const keel_op_call& call, void*) {
  struct {
    uint64_t x, y;
    uint32_t count, span;
    float alpha;
  } arguments = {address_of(*call.inputs[0]), address_of(*call.outputs[0]), 0, 0,
                 static_cast<float>(kit::attributes<keel_op_scale_attributes>(call).alpha)};
  return run_elements(stream, stored_key(call.inputs[0]->dtype, Shader::kScale, Shader::kScale16),
                      arguments, kit::element_count(*call.outputs[0]));
}

keel_status run_axpy(Stream& stream, const keel_op_call& call, void*) {
  struct {
    uint64_t x, y, result;
    uint32_t count, span;
    float alpha;
  } arguments = {address_of(*call.inputs[0]),
                 address_of(*call.inputs[1]),
                 address_of(*call.outputs[0]),
                 0,
                 0,
                 static_cast<float>(kit::attributes<keel_op_axpy_attributes>(call).alpha)};
  return run_elements(stream, stored_key(call.inputs[0]->dtype, Shader::kAxpy, Shader::kAxpy16),
                      arguments, kit::element_count(*call.outputs[0]));
}

// ---- adamw -----------------------------------------------------------------------

bool supports_adamw(const Device& device, const keel_op_call& call) {
  return takes_floats(device, call.inputs[1]->dtype) && is_dense_call(call);
}

keel_status run_adamw(Stream& stream, const keel_op_call& call, void*) {
  const auto attributes = kit::attributes<keel_op_adamw_attributes>(call);
  const double beta1 = attributes.beta1;
  const double beta2 = attributes.beta2;
  const auto step = static_cast<double>(attributes.step);
  struct {
    uint64_t in[4], out[3];
    uint32_t count, span;
    float lr, beta1, beta2, one_minus_beta1, one_minus_beta2, eps, weight_decay, grad_scale;
    float m_correction, v_correction;
  } arguments = {};
  for (int i = 0; i < 4; ++i) arguments.in[i] = address_of(*call.inputs[i]);
  for (int i = 0; i < 3; ++i) arguments.out[i] = address_of(*call.outputs[i]);
  arguments.lr = static_cast<float>(attributes.lr);
  arguments.beta1 = static_cast<float>(beta1);
  arguments.beta2 = static_cast<float>(beta2);
  arguments.one_minus_beta1 = static_cast<float>(1.0 - beta1);
  arguments.one_minus_beta2 = static_cast<float>(1.0 - beta2);
  arguments.eps = static_cast<float>(attributes.eps);
  arguments.weight_decay = static_cast<float>(attributes.weight_decay);
  arguments.grad_scale = static_cast<float>(attributes.grad_scale);
  arguments.m_correction = static_cast<float>(1.0 / (1.0 - std::pow(beta1, step)));
  arguments.v_correction = static_cast<float>(1.0 / (1.0 - std::pow(beta2, step)));
  static_assert(sizeof(arguments) <= kPushConstantBytes);
  return run_elements(stream, stored_key(call.inputs[1]->dtype, Shader::kAdamw, Shader::kAdamw16),
                      arguments, kit::element_count(*call.outputs[0]));
}

}  // namespace

keel_status convert(Stream& stream, uint64_t x, keel_dtype from, uint64_t y, keel_dtype to,
                    int64_t count) {
  struct {
    uint64_t x, y;
    uint32_t count, span;
  } arguments = {x, y, 0, 0};
  const int variant = 4 * cast_type(from) + cast_type(to);
  return run_elements(stream, {Shader::kCast, static_cast<uint32_t>(variant)}, arguments, count);
}

const Op kFillOp = {"vulkan.fill", supports_fill, nullptr, run_fill};
const Op kCastOp = {"vulkan.cast", supports_cast, cast_workspace, run_cast};
const Op kAddOp = {"vulkan.add", supports_floats, nullptr, run_add};
const Op kScaleOp = {"vulkan.scale", supports_floats, nullptr, run_scale};
const Op kAxpyOp = {"vulkan.axpy", supports_floats, nullptr, run_axpy};
const Op kAdamwOp = {"vulkan.adamw", supports_adamw, nullptr, run_adamw};

}  // namespace keel::vulkan
