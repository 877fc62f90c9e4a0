// SPDX-License-Identifier: Apache-2.0
// dropout_add, and dropout_backward, which equals dropout_add without a bias and a residual.
#include <cmath>

#include "backends/vulkan/ops.h"

namespace keel::vulkan {

namespace {

keel_status run_dropout(Stream& stream, const keel_op_call& call, const keel_tensor* bias,
                        const keel_tensor* residual) {
  const keel_tensor& y = *call.outputs[0];
  const int64_t elements = kit::element_count(y);
  // dropout_backward has the same.
  const auto attributes = kit::attributes<keel_op_dropout_add_attributes>(call);
  const double p = attributes.p;
  struct {
    uint64_t x, bias, residual, y;
    uint64_t seed, offset;
    uint32_t count, span, elements, columns, has_residual, threshold;
    float factor;
  } arguments = {address_of(*call.inputs[0]),
                 address_or_none(bias),
                 address_or_none(residual),
                 address_of(y),
                 static_cast<uint64_t>(attributes.seed),
                 static_cast<uint64_t>(attributes.offset),
                 0,
                 0,
                 static_cast<uint32_t>(elements),
                 bias == nullptr ? 0 : static_cast<uint32_t>(bias->shape[0]),
                 residual != nullptr ? 1u : 0u,
                 static_cast<uint32_t>(std::ldexp(p, 32)),
                 static_cast<float>(1 / (1 - p))};
  static_assert(sizeof(arguments) <= kPushConstantBytes);
  return run_elements(stream, stored_key(y.dtype, Shader::kDropout, Shader::kDropout16), arguments,
                      (elements + 3) / 4);
}

keel_status run_dropout_add(Stream& stream, const keel_op_call& call, void*) {
  return run_dropout(stream, call, call.inputs[1], call.inputs[2]);
}

keel_status run_dropout_backward(Stream& stream, const keel_op_call& call, void*) {
  return run_dropout(stream, call, nullptr, nullptr);
}

}  // namespace

const Op kDropoutAddOp = {"vulkan.dropout_add", supports_floats, nullptr, run_dropout_add};
const Op kDropoutBackwardOp = {"vulkan.dropout_backward", supports_floats, nullptr,
                               run_dropout_backward};

}  // namespace keel::vulkan
