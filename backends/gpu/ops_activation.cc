// SPDX-License-Identifier: Apache-2.0
// clamp, gelu, swiglu and bias_gelu with their gradients.
#include "backends/gpu/ops.h"

namespace keel::gpu {
namespace {

using simt::KernelId;

using Kernels = ByDtype<KernelId>;

// Elements that a thread processes at a time if rows are aligned.
uint64_t lanes_of(const keel_tensor& tensor) {
  return 16 / kit::dtype_size(tensor.dtype);
}

// Whether rows of |width| elements, and the tensors, begin at multiples of 16 bytes.
uint32_t are_aligned(const keel_tensor& first, uint64_t width,
                     std::initializer_list<simt::Address> addresses) {
  const bool aligned =
      width % lanes_of(first) == 0 &&
      std::all_of(addresses.begin(), addresses.end(), [](simt::Address a) { return a % 16 == 0; });
  return aligned ? 1 : 0;
}

template <typename Arguments>
keel_status launch_elements(Stream& stream, const Kernels& kernels, const keel_tensor& x,
                            uint64_t count, const Arguments& arguments) {
  if (count == 0) return KEEL_OK;
  return launch(stream, kernels.of(x.dtype),
                blocks_for(stream, count, simt::kThreads * lanes_of(x)), arguments);
}

// ---- clamp -----------------------------------------------------------------------

constexpr Kernels kClamp = {KernelId::clamp_f32, KernelId::clamp_bf16, KernelId::clamp_f16};
constexpr Kernels kClampBackward = {KernelId::clamp_backward_f32, KernelId::clamp_backward_bf16,
                                    KernelId::clamp_backward_f16};

// |dy| NULL: forward. Both operators have the same attributes.
keel_status run_clamp_by(Stream& stream, const keel_op_call& call, const keel_tensor* dy,
                         const Kernels& kernels) {
  const keel_tensor& x = *call.inputs[0];
  const auto attributes = kit::attributes<keel_op_clamp_attributes>(call);
  simt::ClampArguments arguments = {};
  arguments.x = address_of(x);
  arguments.dy = address_or_none(dy);
  arguments.out = address_of(*call.outputs[0]);
  arguments.count = static_cast<uint64_t>(kit::element_count(x));
  arguments.low = static_cast<float>(attributes.min);
  arguments.high = static_cast<float>(attributes.max);
  arguments.is_aligned = are_aligned(x, 0, {arguments.x, arguments.dy, arguments.out});
  return launch_elements(stream, kernels, x, arguments.count, arguments);
}

keel_status run_clamp(Stream& stream, const keel_op_call& call, void*) {
  return run_clamp_by(stream, call, nullptr, kClamp);
}

keel_status run_clamp_backward(Stream& stream, const keel_op_call& call, void*) {
  return run_clamp_by(stream, call, call.inputs[1], kClampBackward);
}

// ---- swiglu ----------------------------------------------------------------------

constexpr Kernels kSwiglu = {KernelId::swiglu_f32, KernelId::swiglu_bf16, KernelId::swiglu_f16};
constexpr Kernels kSwigluBackward = {KernelId::swiglu_backward_f32, KernelId::swiglu_backward_bf16,
                                     KernelId::swiglu_backward_f16};

keel_status run_swiglu(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& x = *call.inputs[0];
  const simt::Address from = address_of(x);
  const simt::Address to = address_of(*call.outputs[0]);
  const auto rows = static_cast<uint64_t>(x.shape[0]);
  const auto width = static_cast<uint64_t>(x.shape[1] / 2);
  return launch_elements(
      stream, kSwiglu, x, rows * width,
      simt::SwigluArguments{from, to, rows, width, are_aligned(x, width, {from, to}), 0});
}

keel_status run_swiglu_backward(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& x = *call.inputs[0];
  const simt::Address from = address_of(x);
  const simt::Address dy = address_of(*call.inputs[1]);
  const simt::Address to = address_of(*call.outputs[0]);
  const auto rows = static_cast<uint64_t>(x.shape[0]);
  const auto width = static_cast<uint64_t>(x.shape[1] / 2);
  return launch_elements(stream, kSwigluBackward, x, rows * width,
                         simt::SwigluBackwardArguments{from, dy, to, rows, width,
                                                       are_aligned(x, width, {from, dy, to}), 0});
}

// ---- gelu, bias_gelu -------------------------------------------------------------------

constexpr Kernels kBiasGelu = {KernelId::bias_gelu_f32, KernelId::bias_gelu_bf16,
                               KernelId::bias_gelu_f16};
constexpr Kernels kBiasGeluBackward = {KernelId::bias_gelu_backward_f32,
                                       KernelId::bias_gelu_backward_bf16,
                                       KernelId::bias_gelu_backward_f16};

// |bias| may be NULL; |dy| NULL: forward.
keel_status run_either(Stream& stream, const keel_op_call& call, const keel_tensor* bias,
                       const keel_tensor* dy, const Kernels& kernels) {
  const keel_tensor& x = *call.inputs[0];
  simt::BiasGeluArguments arguments = {};
  arguments.x = address_of(x);
  arguments.bias = address_or_none(bias);
  arguments.dy = address_or_none(dy);
  arguments.out = address_of(*call.outputs[0]);
  arguments.count = static_cast<uint64_t>(kit::element_count(x));
  arguments.columns = bias == nullptr ? 0 : static_cast<uint64_t>(bias->shape[0]);
  // The four operators have the same attribute.
  arguments.by_erf =
      kit::attributes<keel_op_gelu_attributes>(call).form == KEEL_GELU_FORM_ERF ? 1 : 0;
  // Without a bias all rows form one row, and columns stays 0.
  arguments.is_aligned =
      are_aligned(x, arguments.columns, {arguments.x, arguments.bias, arguments.dy, arguments.out});
  return launch_elements(stream, kernels, x, arguments.count, arguments);
}

keel_status run_gelu(Stream& stream, const keel_op_call& call, void*) {
  return run_either(stream, call, nullptr, nullptr, kBiasGelu);
}

keel_status run_gelu_backward(Stream& stream, const keel_op_call& call, void*) {
  return run_either(stream, call, nullptr, call.inputs[1], kBiasGeluBackward);
}

keel_status run_bias_gelu(Stream& stream, const keel_op_call& call, void*) {
  return run_either(stream, call, call.inputs[1], nullptr, kBiasGelu);
}

keel_status run_bias_gelu_backward(Stream& stream, const keel_op_call& call, void*) {
  return run_either(stream, call, call.inputs[1], call.inputs[2], kBiasGeluBackward);
}

}  // namespace

const Op kClampOp = {"simt.clamp", is_dense_float_call, nullptr, run_clamp};
const Op kClampBackwardOp = {"simt.clamp_backward", is_dense_float_call, nullptr,
                             run_clamp_backward};
const Op kGeluOp = {"simt.gelu", is_dense_float_call, nullptr, run_gelu};
const Op kGeluBackwardOp = {"simt.gelu_backward", is_dense_float_call, nullptr, run_gelu_backward};
const Op kSwigluOp = {"simt.swiglu", is_dense_float_call, nullptr, run_swiglu};
const Op kSwigluBackwardOp = {"simt.swiglu_backward", is_dense_float_call, nullptr,
                              run_swiglu_backward};
const Op kBiasGeluOp = {"simt.bias_gelu", is_dense_float_call, nullptr, run_bias_gelu};
const Op kBiasGeluBackwardOp = {"simt.bias_gelu_backward", is_dense_float_call, nullptr,
                                run_bias_gelu_backward};

}  // namespace keel::gpu
