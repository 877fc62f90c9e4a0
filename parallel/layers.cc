// SPDX-License-Identifier: Apache-2.0
#include "parallel/layers.h"

namespace keel::parallel {

Tensor Norm::forward(const LayerContext& context, const keel_tensor& x,
                     Statistics& statistics) const {
  const int64_t rows = x.shape[0];
  Tensor y = context.memory.take({rows, x.shape[1]});
  statistics.rstd = context.memory.take({rows});
  if (ids.bias != kNone) {
    statistics.mean = context.memory.take({rows});
    ops::layer_norm(context.stream(), {.x = x,
                                       .gamma = context.store.value(ids.gain),
                                       .beta = context.store.value(ids.bias),
                                       .y = y,
                                       .mean = statistics.mean,
                                       .rstd = statistics.rstd,
                                       .eps = context.shape.norm_epsilon});
  } else {
    ops::rms_norm(context.stream(), {.x = x,
                                     .gamma = context.store.value(ids.gain),
                                     .y = y,
                                     .rstd = statistics.rstd,
                                     .eps = context.shape.norm_epsilon});
  }
  return y;
}

void Norm::backward(const LayerContext& context, const keel_tensor& x, const Statistics& statistics,
                    const keel_tensor& d) const {
  const int64_t width = x.shape[1];
  const Tensor gain = context.memory.take({width});
  const auto add = [&](size_t id, const keel_tensor& part) {
    const keel_tensor gradient = context.store.gradient(id);
    ops::add(context.stream(), {.a = gradient, .b = part, .c = gradient});
  };
  if (ids.bias != kNone) {
    const Tensor bias = context.memory.take({width});
    ops::layer_norm_backward(context.stream(), {.dy = d,
                                                .x = x,
                                                .gamma = context.store.value(ids.gain),
                                                .mean = statistics.mean,
                                                .rstd = statistics.rstd,
                                                .dx = d,
                                                .dgamma = gain,
                                                .dbeta = bias});
    add(ids.bias, bias);
  } else {
    ops::rms_norm_backward(context.stream(), {.dy = d,
                                              .x = x,
                                              .gamma = context.store.value(ids.gain),
                                              .rstd = statistics.rstd,
                                              .dx = d,
                                              .dgamma = gain});
  }
  add(ids.gain, gain);
}

void add_weight_gradient(const LayerContext& context, const keel_tensor& gradient,
                         const keel_tensor& d, const keel_tensor& x) {
  if (!context.rounded) {
    ops::matmul(context.stream(), {.a = d, .b = x, .c = gradient, .trans_a = true, .beta = 1});
    return;
  }
  const auto rounded = [&](const keel_tensor& tensor) {
    Tensor copy = context.memory.take({tensor.shape[0], tensor.shape[1]}, KEEL_BFLOAT16);
    ops::cast(context.stream(), {.x = tensor, .y = copy});
    return copy;
  };
  ops::matmul(context.stream(),
              {.a = rounded(d), .b = rounded(x), .c = gradient, .trans_a = true, .beta = 1});
}

void add_bias_gradient(const LayerContext& context, size_t bias, const keel_tensor& d) {
  if (bias == kNone) return;
  const keel_tensor gradient = context.store.gradient(bias);
  const Tensor part = context.memory.take({d.shape[1]});
  ops::sum(context.stream(), {.x = d, .y = part, .axis = 0});
  ops::add(context.stream(), {.a = gradient, .b = part, .c = gradient});
}

int64_t Dropout::offset(const LayerContext& context, uint64_t number) const {
  const int64_t row = static_cast<int64_t>(number) * context.shape.context + context.first_row();
  return row * context.shape.width /
         4;  // a counter for four elements; check() wants width % 4 == 0
}

void Dropout::forward(const LayerContext& context, uint64_t number, const keel_tensor& x,
                      const std::optional<keel_tensor>& bias, const keel_tensor& residual,
                      const keel_tensor& y) const {
  ops::dropout_add(context.stream(), {.x = x,
                                      .bias = bias ? Operand(*bias) : nullptr,
                                      .residual = residual,
                                      .y = y,
                                      .p = context.shape.dropout,
                                      .seed = key,
                                      .offset = offset(context, number)});
}

Tensor Dropout::backward(const LayerContext& context, uint64_t number, const Tensor& d) const {
  if (context.shape.dropout == 0) return d;
  Tensor dx = context.memory.take({d.view().shape[0], d.view().shape[1]});
  ops::dropout_backward(context.stream(), {.dy = d,
                                           .dx = dx,
                                           .p = context.shape.dropout,
                                           .seed = key,
                                           .offset = offset(context, number)});
  return dx;
}

}  // namespace keel::parallel
