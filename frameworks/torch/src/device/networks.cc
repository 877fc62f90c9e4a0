// SPDX-License-Identifier: Apache-2.0
// The operators that PyTorch leaves to devices outside of it: convolutions, which the CPU computes
// as counted fallbacks, and the cells of LSTM and GRU of the device's own pointwise operators.
#include <ATen/ATen.h>
#include <torch/library.h>

#include "devices.h"
#include "fallback.h"

namespace keel_torch::device {

namespace {

using at::Tensor;
using c10::SymIntArrayRef;
using OptionalTensor = std::optional<Tensor>;

Tensor convolution(const Tensor& input, const Tensor& weight, const OptionalTensor& bias,
                   SymIntArrayRef stride, SymIntArrayRef padding, SymIntArrayRef dilation,
                   bool transposed, SymIntArrayRef output_padding, c10::SymInt groups) {
  return at::native::call_fallback_fn_symint<&fall_back, at::_ops::convolution>::call(
      input, weight, bias, stride, padding, dilation, transposed, output_padding,
      std::move(groups));
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward(
    const Tensor& gradient, const Tensor& input, const Tensor& weight, SymIntArrayRef stride,
    SymIntArrayRef padding, SymIntArrayRef dilation, bool transposed, SymIntArrayRef output_padding,
    c10::SymInt groups, std::array<bool, 3> mask) {
  const c10::SymInt channels = gradient.sym_size(1);
  return at::native::call_fallback_fn_symint<&fall_back, at::_ops::convolution_backward>::call(
      gradient, input, weight, SymIntArrayRef(&channels, 1), stride, padding, dilation, transposed,
      output_padding, std::move(groups), mask);
}

Tensor with_bias(const Tensor& gates, const OptionalTensor& bias) {
  return bias.has_value() && bias->defined() ? gates + *bias : gates;
}

Tensor sum_of_rows(const Tensor& gradient, bool is_wanted) {
  return is_wanted ? gradient.sum(at::IntArrayRef(0), false) : Tensor();
}

// The workspace holds the gates: input, forget, cell, output.
std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates,
                                             const Tensor& cx, const OptionalTensor& input_bias,
                                             const OptionalTensor& hidden_bias) {
  const Tensor sum = with_bias(with_bias(input_gates + hidden_gates, input_bias), hidden_bias);
  const std::vector<Tensor> parts = sum.chunk(4, 1);
  const Tensor in = parts[0].sigmoid();
  const Tensor forget = parts[1].sigmoid();
  const Tensor cell = parts[2].tanh();
  const Tensor out = parts[3].sigmoid();
  const Tensor cy = at::addcmul(forget * cx, in, cell);
  return {out * cy.tanh(), cy, at::cat({in, forget, cell, out}, 1)};
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const OptionalTensor& grad_hy,
                                                      const OptionalTensor& grad_cy,
                                                      const Tensor& cx, const Tensor& cy,
                                                      const Tensor& workspace, bool has_bias) {
  const bool has_hy = grad_hy.has_value() && grad_hy->defined();
  const bool has_cy = grad_cy.has_value() && grad_cy->defined();
  if (!has_hy && !has_cy) return {};
  const std::vector<Tensor> gates = workspace.chunk(4, 1);
  const Tensor squashed = cy.tanh();
  const Tensor dhy = has_hy ? *grad_hy : at::zeros_like(cy);
  Tensor dcy = at::tanh_backward(dhy * gates[3], squashed);
  if (has_cy) dcy = dcy + *grad_cy;
  const Tensor gradient = at::cat(
      {at::sigmoid_backward(dcy * gates[2], gates[0]), at::sigmoid_backward(dcy * cx, gates[1]),
       at::tanh_backward(dcy * gates[0], gates[2]), at::sigmoid_backward(dhy * squashed, gates[3])},
      1);
  return {gradient, dcy * gates[1], sum_of_rows(gradient, has_bias)};
}

// The workspace holds the gates reset, update and new, the former state, and the hidden part of
// new.
std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates,
                                    const Tensor& hx, const OptionalTensor& input_bias,
                                    const OptionalTensor& hidden_bias) {
  const std::vector<Tensor> in = with_bias(input_gates, input_bias).chunk(3, 1);
  const std::vector<Tensor> hidden = with_bias(hidden_gates, hidden_bias).chunk(3, 1);
  const Tensor reset = (in[0] + hidden[0]).sigmoid();
  const Tensor update = (in[1] + hidden[1]).sigmoid();
  const Tensor fresh = at::addcmul(in[2], reset, hidden[2]).tanh();
  return {at::addcmul(fresh, update, hx - fresh),
          at::cat({reset, update, fresh, hx, hidden[2]}, 1)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& gradient,
                                                                     const Tensor& workspace,
                                                                     bool has_bias) {
  const std::vector<Tensor> kept = workspace.chunk(5, 1);
  const Tensor dupdate = at::sigmoid_backward(gradient * (kept[3] - kept[2]), kept[1]);
  const Tensor dnew = at::tanh_backward(gradient - gradient * kept[1], kept[2]);
  const Tensor dreset = at::sigmoid_backward(dnew * kept[4], kept[0]);
  const Tensor din = at::cat({dreset, dupdate, dnew}, 1);
  const Tensor dhidden = at::cat({dreset, dupdate, dnew * kept[0]}, 1);
  return {din, dhidden, gradient * kept[1], sum_of_rows(din, has_bias),
          sum_of_rows(dhidden, has_bias)};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("convolution_overrideable", &convolution);
  library.impl("convolution_backward_overrideable", &convolution_backward);
  library.impl("_thnn_fused_lstm_cell", &lstm_cell);
  library.impl("_thnn_fused_lstm_cell_backward_impl", &lstm_cell_backward);
  library.impl("_thnn_fused_gru_cell", &gru_cell);
  library.impl("_thnn_fused_gru_cell_backward", &gru_cell_backward);
}

}  // namespace

}  // namespace keel_torch::device
