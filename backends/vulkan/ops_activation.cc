// SPDX-License-Identifier: Apache-2.0
// clamp, gelu, swiglu and bias_gelu with their gradients.
#include "backends/vulkan/ops.h"

namespace keel::vulkan {

namespace {

// ---- clamp -----------------------------------------------------------------------

keel_status run_clamp(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& y = *call.outputs[0];
  const auto attributes = kit::attributes<keel_op_clamp_attributes>(call);
  struct {
    uint64_t x, y;
    uint32_t count, span;
    float low, high;
  } arguments = {
      address_of(*call.inputs[0]),       address_of(y), 0, 0, static_cast<float>(attributes.min),
      static_cast<float>(attributes.max)};
  return run_elements(stream, stored_key(y.dtype, Shader::kClamp, Shader::kClamp16), arguments,
                      kit::element_count(y));
}

keel_status run_clamp_backward(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& dx = *call.outputs[0];
  const auto attributes = kit::attributes<keel_op_clamp_backward_attributes>(call);
  struct {
    uint64_t x, dy, dx;
    uint32_t count, span;
    float low, high;
  } arguments = {
      address_of(*call.inputs[0]),        address_of(*call.inputs[1]),       address_of(dx), 0, 0,
      static_cast<float>(attributes.min), static_cast<float>(attributes.max)};
  return run_elements(stream,
                      stored_key(dx.dtype, Shader::kClampBackward, Shader::kClampBackward16),
                      arguments, kit::element_count(dx));
}

// ---- swiglu ----------------------------------------------------------------------

keel_status run_swiglu(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& y = *call.outputs[0];
  struct {
    uint64_t x, y;
    uint32_t count, span, width;
  } arguments = {address_of(*call.inputs[0]), address_of(y), 0, 0,
                 static_cast<uint32_t>(y.shape[1])};
  return run_elements(stream, stored_key(y.dtype, Shader::kSwiglu, Shader::kSwiglu16), arguments,
                      kit::element_count(y));
}

keel_status run_swiglu_backward(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& dy = *call.inputs[1];
  struct {
    uint64_t x, dy, dx;
    uint32_t count, span, width;
  } arguments = {
      address_of(*call.inputs[0]),       address_of(dy), address_of(*call.outputs[0]), 0, 0,
      static_cast<uint32_t>(dy.shape[1])};
  return run_elements(stream,
                      stored_key(dy.dtype, Shader::kSwigluBackward, Shader::kSwigluBackward16),
                      arguments, kit::element_count(dy));
}

// ---- gelu, bias_gelu -------------------------------------------------------------------

// Without a bias the number of columns does not matter.
keel_status run_forward(Stream& stream, const keel_op_call& call, const keel_tensor* bias) {
  const keel_tensor& y = *call.outputs[0];
  struct {
    uint64_t x, bias, y;
    uint32_t count, span, columns, has_bias, by_erf;
  } arguments = {
      address_of(*call.inputs[0]),
      address_or_none(bias),
      address_of(y),
      0,
      0,
      bias != nullptr ? static_cast<uint32_t>(bias->shape[0]) : 1u,
      bias != nullptr ? 1u : 0u,
      kit::attributes<keel_op_gelu_attributes>(call).form == KEEL_GELU_FORM_ERF ? 1u : 0u};
  return run_elements(stream, stored_key(y.dtype, Shader::kBiasGelu, Shader::kBiasGelu16),
                      arguments, kit::element_count(y));
}

keel_status run_backward(Stream& stream, const keel_op_call& call, const keel_tensor* bias,
                         const keel_tensor& dy) {
  const keel_tensor& dx = *call.outputs[0];
  struct {
    uint64_t x, bias, dy, dx;
    uint32_t count, span, columns, has_bias, by_erf;
  } arguments = {
      address_of(*call.inputs[0]),
      address_or_none(bias),
      address_of(dy),
      address_of(dx),
      0,
      0,
      bias != nullptr ? static_cast<uint32_t>(bias->shape[0]) : 1u,
      bias != nullptr ? 1u : 0u,
      kit::attributes<keel_op_gelu_backward_attributes>(call).form == KEEL_GELU_FORM_ERF ? 1u : 0u};
  return run_elements(stream,
                      stored_key(dx.dtype, Shader::kBiasGeluBackward, Shader::kBiasGeluBackward16),
                      arguments, kit::element_count(dx));
}

keel_status run_gelu(Stream& stream, const keel_op_call& call, void*) {
  return run_forward(stream, call, nullptr);
}

keel_status run_gelu_backward(Stream& stream, const keel_op_call& call, void*) {
  return run_backward(stream, call, nullptr, *call.inputs[1]);
}

keel_status run_bias_gelu(Stream& stream, const keel_op_call& call, void*) {
  return run_forward(stream, call, call.inputs[1]);
}

keel_status run_bias_gelu_backward(Stream& stream, const keel_op_call& call, void*) {
  return run_backward(stream, call, call.inputs[1], *call.inputs[2]);
}

}  // namespace

const Op kClampOp = {"vulkan.clamp", supports_floats, nullptr, run_clamp};
const Op kClampBackwardOp = {"vulkan.clamp_backward", supports_floats, nullptr, run_clamp_backward};
const Op kGeluOp = {"vulkan.gelu", supports_floats, nullptr, run_gelu};
const Op kGeluBackwardOp = {"vulkan.gelu_backward", supports_floats, nullptr, run_gelu_backward};
const Op kSwigluOp = {"vulkan.swiglu", supports_floats, nullptr, run_swiglu};
const Op kSwigluBackwardOp = {"vulkan.swiglu_backward", supports_floats, nullptr,
                              run_swiglu_backward};
const Op kBiasGeluOp = {"vulkan.bias_gelu", supports_floats, nullptr, run_bias_gelu};
const Op kBiasGeluBackwardOp = {"vulkan.bias_gelu_backward", supports_floats, nullptr,
                                run_bias_gelu_backward};

}  // namespace keel::vulkan
