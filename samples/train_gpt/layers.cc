// SPDX-License-Identifier: Apache-2.0
#include "samples/train_gpt/layers.h"

#include <functional>
#include <numeric>
#include <utility>

namespace train_gpt {
namespace {

// c = op(a) op(b) + beta c + bias
void product(const keel::Stream& stream, const keel_tensor& a, bool trans_a, const keel_tensor& b,
             bool trans_b, keel::Operand bias, const keel_tensor& c, double beta = 0) {
  keel::ops::matmul(
      stream,
      {.a = a, .b = b, .bias = bias, .c = c, .trans_a = trans_a, .trans_b = trans_b, .beta = beta});
}

}  // namespace

keel_tensor Arena::take(keel_dtype dtype, std::initializer_list<int64_t> shape) {
  const int64_t count =
      std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  const uint64_t element = dtype == KEEL_BFLOAT16 ? 2 : 4;  // else float32 or int32
  buffers_.emplace_back(device_, KEEL_MEMORY_DEVICE, static_cast<uint64_t>(count) * element);
  bytes_ += buffers_.back().size();
  return buffers_.back().tensor(dtype, shape);
}

keel_tensor reshaped(const keel_tensor& tensor, std::initializer_list<int64_t> shape) {
  keel_tensor view = keel::make_tensor(tensor.data, static_cast<keel_dtype>(tensor.dtype), shape);
  view.byte_offset = tensor.byte_offset;
  return view;
}

void round_operand(const keel::Stream& stream, const Activation& x) {
  if (x.operand.data == x.value.data) return;
  keel::ops::cast(stream, {.x = x.value, .y = x.operand});
}

// ---- linear

void Linear::forward(const keel::Stream& stream, const keel_tensor& x, const keel_tensor& y) const {
  product(stream, x, false, weight, true, bias ? keel::Operand(*bias) : nullptr, y);
}

// dW = dy' x, db = the sum of dy's rows, dx = dy W.
void Linear::backward(const keel::Stream& stream, const keel_tensor& x, const Activation& d_y,
                      const keel_tensor& d_x, bool add) const {
  round_operand(stream, d_y);
  product(stream, d_y.operand, true, x, false, nullptr, weight_gradient);
  if (bias_gradient) {
    keel::ops::sum(stream, {.x = d_y.value, .y = *bias_gradient, .axis = 0});
  }
  product(stream, d_y.operand, false, weight, false, nullptr, d_x, add ? 1 : 0);
}

// ---- norms

void Norm::forward(const keel::Stream& stream, const keel_tensor& x, const keel_tensor& y,
                   const NormStatistics& statistics) const {
  if (bias) {
    keel::ops::layer_norm(stream, {.x = x,
                                   .gamma = gain,
                                   .beta = *bias,
                                   .y = y,
                                   .mean = statistics.mean,
                                   .rstd = statistics.rstd,
                                   .eps = epsilon});
  } else {
    keel::ops::rms_norm(stream,
                        {.x = x, .gamma = gain, .y = y, .rstd = statistics.rstd, .eps = epsilon});
  }
}

void Norm::backward(const keel::Stream& stream, const keel_tensor& x,
                    const NormStatistics& statistics, const keel_tensor& d) const {
  if (bias) {
    keel::ops::layer_norm_backward(stream, {.dy = d,
                                            .x = x,
                                            .gamma = gain,
                                            .mean = statistics.mean,
                                            .rstd = statistics.rstd,
                                            .dx = d,
                                            .dgamma = gain_gradient,
                                            .dbeta = *bias_gradient});
  } else {
    keel::ops::rms_norm_backward(stream, {.dy = d,
                                          .x = x,
                                          .gamma = gain,
                                          .rstd = statistics.rstd,
                                          .dx = d,
                                          .dgamma = gain_gradient});
  }
}

// ---- rotary positions

void Rotation::forward(const keel::Stream& stream, const keel_tensor& x) const {
  turn(stream, x, /*inverse=*/false);
}

// The transpose of a rotation is its inverse.
void Rotation::backward(const keel::Stream& stream, const keel_tensor& d) const {
  turn(stream, d, /*inverse=*/true);
}

// Pairs are elements i and i + head_size / 2, as in Llama weights in the Hugging Face layout.
void Rotation::turn(const keel::Stream& stream, const keel_tensor& x, bool inverse) const {
  keel::ops::rope(
      stream,
      {.x = x, .cos = cosines, .sin = sines, .positions = positions, .y = x, .inverse = inverse});
}

// ---- attention

void Attention::forward(const keel::Stream& stream, const Tensors& tensors,
                        const keel_tensor& logsumexp) const {
  keel::ops::attention(stream, {.q = tensors.query,
                                .k = tensors.key,
                                .v = tensors.value,
                                .cu_seqlens_q = boundaries,
                                .cu_seqlens_k = boundaries,
                                .out = tensors.output,
                                .logsumexp = logsumexp,
                                .scale = scale,
                                .causal = true});
}

void Attention::backward(const keel::Stream& stream, const Tensors& tensors,
                         const keel_tensor& logsumexp, const Tensors& gradients) const {
  keel::ops::attention_backward(stream, {.q = tensors.query,
                                         .k = tensors.key,
                                         .v = tensors.value,
                                         .out = tensors.output,
                                         .dout = gradients.output,
                                         .logsumexp = logsumexp,
                                         .cu_seqlens_q = boundaries,
                                         .cu_seqlens_k = boundaries,
                                         .dq = gradients.query,
                                         .dk = gradients.key,
                                         .dv = gradients.value,
                                         .scale = scale,
                                         .causal = true});
}

}  // namespace train_gpt
