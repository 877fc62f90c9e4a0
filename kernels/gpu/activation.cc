// SPDX-License-Identifier: Apache-2.0
// clamp, swiglu and bias_gelu with their gradients. 16-bit types are computed in float32 and
// rounded once. An output may alias an input: a thread reads its elements before it writes them.
#include "kernels/gpu/gelu.h"
#include "kernels/gpu/rows.h"
#include "kernels/gpu/sigmoid.h"

namespace keel::simt {
namespace {

// ---- clamp

template <typename T>
KEEL_SIMT_FUNCTION void clamp(const ClampArguments& args) {
  const Global<const T> x(args.x);
  const Global<T> y(args.out);
  for_each<kLanes<T>>(args.count, args.is_aligned != 0, [&](auto lanes, uint64_t i) {
    constexpr int n = decltype(lanes)::value;
    Lanes<T, n> value = x.template load<n>(i);
    for (int lane = 0; lane < n; ++lane) {
      const float t = to_float(value.at[lane]);
      const float raised = t < args.low ? args.low : t;
      value.at[lane] = Round<T>::of(raised > args.high ? args.high : raised);
    }
    y.template store<n>(i, value);
  });
}

template <typename T>
KEEL_SIMT_FUNCTION void clamp_backward(const ClampArguments& args) {
  const Global<const T> x(args.x);
  const Global<const T> dy(args.dy);
  const Global<T> dx(args.out);
  for_each<kLanes<T>>(args.count, args.is_aligned != 0, [&](auto lanes, uint64_t i) {
    constexpr int n = decltype(lanes)::value;
    const Lanes<T, n> value = x.template load<n>(i);
    Lanes<T, n> gradient = dy.template load<n>(i);
    for (int lane = 0; lane < n; ++lane) {
      const float t = to_float(value.at[lane]);
      const bool is_cut = t < args.low || t > args.high || t != t;
      gradient.at[lane] = Round<T>::of(is_cut ? 0.0F : to_float(gradient.at[lane]));
    }
    dx.template store<n>(i, gradient);
  });
}

// ---- swiglu

// A row of x is two rows of y side by side: the gates and the gated values.
template <typename T>
KEEL_SIMT_FUNCTION void swiglu(const SwigluArguments& args) {
  const Global<const T> x(args.x);
  const Global<T> y(args.y);
  const uint64_t width = args.width;
  for_each<kLanes<T>>(args.rows * width, args.is_aligned != 0, [&](auto lanes, uint64_t i) {
    constexpr int n = decltype(lanes)::value;
    const uint64_t gate = i + i / width * width;
    Lanes<T, n> value = x.template load<n>(gate);
    const Lanes<T, n> up = x.template load<n>(gate + width);
    for (int lane = 0; lane < n; ++lane) {
      const float t = to_float(value.at[lane]);
      value.at[lane] = Round<T>::of(silu(t) * to_float(up.at[lane]));
    }
    y.template store<n>(i, value);
  });
}

template <typename T>
KEEL_SIMT_FUNCTION void swiglu_backward(const SwigluBackwardArguments& args) {
  const Global<const T> x(args.x);
  const Global<const T> dy(args.dy);
  const Global<T> dx(args.dx);
  const uint64_t width = args.width;
  for_each<kLanes<T>>(args.rows * width, args.is_aligned != 0, [&](auto lanes, uint64_t i) {
    constexpr int n = decltype(lanes)::value;
    const uint64_t gate = i + i / width * width;
    Lanes<T, n> value = x.template load<n>(gate);
    Lanes<T, n> up = x.template load<n>(gate + width);
    const Lanes<T, n> gradient = dy.template load<n>(i);
    for (int lane = 0; lane < n; ++lane) {
      const float t = to_float(value.at[lane]);
      const float slope_of_y = to_float(gradient.at[lane]);
      const Sigmoid s = sigmoid(t);
      value.at[lane] = Round<T>::of(slope_of_y * to_float(up.at[lane]) * silu_slope(t, s));
      up.at[lane] = Round<T>::of(slope_of_y * silu(t, s));
    }
    dx.template store<n>(gate, value);
    dx.template store<n>(gate + width, up);
  });
}

// ---- bias_gelu

// Returns x plus the bias of the element's column.
template <typename T, int n>
KEEL_SIMT_FUNCTION Lanes<float, n> biased(const BiasGeluArguments& args, uint64_t i) {
  const Global<const T> x(args.x);
  const Global<const T> bias(args.bias);
  const Lanes<T, n> value = x.template load<n>(i);
  Lanes<T, n> offset = {};
  if (args.bias != 0) offset = bias.template load<n>(i % args.columns);
  Lanes<float, n> sum;
  for (int lane = 0; lane < n; ++lane) {
    sum.at[lane] = to_float(value.at[lane]);
    if (args.bias != 0) sum.at[lane] += to_float(offset.at[lane]);
  }
  return sum;
}

template <typename T>
KEEL_SIMT_FUNCTION void bias_gelu(const BiasGeluArguments& args) {
  const Global<T> y(args.out);
  for_each<kLanes<T>>(args.count, args.is_aligned != 0, [&](auto lanes, uint64_t i) {
    constexpr int n = decltype(lanes)::value;
    const Lanes<float, n> t = biased<T, n>(args, i);
    Lanes<T, n> result;
    for (int lane = 0; lane < n; ++lane) {
      const float value = t.at[lane];
      result.at[lane] = Round<T>::of(args.by_erf != 0 ? gelu_by_erf(value) : gelu_of(value));
    }
    y.template store<n>(i, result);
  });
}

template <typename T>
KEEL_SIMT_FUNCTION void bias_gelu_backward(const BiasGeluArguments& args) {
  const Global<const T> dy(args.dy);
  const Global<T> dx(args.out);
  for_each<kLanes<T>>(args.count, args.is_aligned != 0, [&](auto lanes, uint64_t i) {
    constexpr int n = decltype(lanes)::value;
    const Lanes<float, n> t = biased<T, n>(args, i);
    Lanes<T, n> gradient = dy.template load<n>(i);
    for (int lane = 0; lane < n; ++lane) {
      const float value = t.at[lane];
      const float slope = args.by_erf != 0 ? gelu_by_erf_slope(value) : gelu_slope(value);
      gradient.at[lane] = Round<T>::of(to_float(gradient.at[lane]) * slope);
    }
    dx.template store<n>(i, gradient);
  });
}

}  // namespace
}  // namespace keel::simt

#define KEEL_SIMT_ACTIVATION(type, T)                                             \
  KEEL_SIMT_KERNEL(clamp_##type, keel::simt::ClampArguments) {                    \
    keel::simt::clamp<T>(args);                                                   \
  }                                                                               \
  KEEL_SIMT_KERNEL(clamp_backward_##type, keel::simt::ClampArguments) {           \
    keel::simt::clamp_backward<T>(args);                                          \
  }                                                                               \
  KEEL_SIMT_KERNEL(swiglu_##type, keel::simt::SwigluArguments) {                  \
    keel::simt::swiglu<T>(args);                                                  \
  }                                                                               \
  KEEL_SIMT_KERNEL(swiglu_backward_##type, keel::simt::SwigluBackwardArguments) { \
    keel::simt::swiglu_backward<T>(args);                                         \
  }                                                                               \
  KEEL_SIMT_KERNEL(bias_gelu_##type, keel::simt::BiasGeluArguments) {             \
    keel::simt::bias_gelu<T>(args);                                               \
  }                                                                               \
  KEEL_SIMT_KERNEL(bias_gelu_backward_##type, keel::simt::BiasGeluArguments) {    \
    keel::simt::bias_gelu_backward<T>(args);                                      \
  }
KEEL_SIMT_ACTIVATION(f32, float)
KEEL_SIMT_ACTIVATION(bf16, keel::simt::bf16)
KEEL_SIMT_ACTIVATION(f16, keel::simt::f16)
#undef KEEL_SIMT_ACTIVATION
