// SPDX-License-Identifier: Apache-2.0
// cast, add, mul, scale, axpy and adamw: each element independently. 16-bit types are computed in
// float32 and rounded once. An output may alias an input: a thread reads its elements before it
// writes them.
#include "kernels/gpu/simt.h"

namespace keel::simt {
namespace {

template <typename From, typename To>
KEEL_SIMT_FUNCTION void cast(const ElementwiseArguments& args) {
  const Global<const From> x(args.in[0]);
  const Global<To> y(args.out);
  for_each<8>(args.count, args.is_aligned != 0, [&](auto width, uint64_t i) {
    constexpr int n = decltype(width)::value;
    const Lanes<From, n> from = x.template load<n>(i);
    Lanes<To, n> to;
    for (int lane = 0; lane < n; ++lane) to.at[lane] = Round<To>::of(to_float(from.at[lane]));
    y.template store<n>(i, to);
  });
}

struct Add {
  KEEL_SIMT_FUNCTION static float of(float a, float b) { return a + b; }
};
struct Multiply {
  KEEL_SIMT_FUNCTION static float of(float a, float b) { return a * b; }
};

template <typename T, typename Operation>
KEEL_SIMT_FUNCTION void combine(const ElementwiseArguments& args) {
  const Global<const T> a(args.in[0]);
  const Global<const T> b(args.in[1]);
  const Global<T> c(args.out);
  for_each<16 / sizeof(T)>(args.count, args.is_aligned != 0, [&](auto width, uint64_t i) {
    constexpr int n = decltype(width)::value;
    const Lanes<T, n> left = a.template load<n>(i);
    const Lanes<T, n> right = b.template load<n>(i);
    Lanes<T, n> result;
    for (int lane = 0; lane < n; ++lane) {
      result.at[lane] =
          Round<T>::of(Operation::of(to_float(left.at[lane]), to_float(right.at[lane])));
    }
    c.template store<n>(i, result);
  });
}

template <typename T>
KEEL_SIMT_FUNCTION void scale(const ElementwiseArguments& args) {
  const Global<const T> x(args.in[0]);
  const Global<T> y(args.out);
  for_each<16 / sizeof(T)>(args.count, args.is_aligned != 0, [&](auto width, uint64_t i) {
    constexpr int n = decltype(width)::value;
    const Lanes<T, n> from = x.template load<n>(i);
    Lanes<T, n> to;
    for (int lane = 0; lane < n; ++lane) {
      to.at[lane] = Round<T>::of(args.alpha * to_float(from.at[lane]));
    }
    y.template store<n>(i, to);
  });
}

// x has type |T|; y and the result are float32.
template <typename T>
KEEL_SIMT_FUNCTION void axpy(const ElementwiseArguments& args) {
  const Global<const T> x(args.in[0]);
  const Global<const float> y(args.in[1]);
  const Global<float> out(args.out);
  for_each<16 / sizeof(T)>(args.count, args.is_aligned != 0, [&](auto width, uint64_t i) {
    constexpr int n = decltype(width)::value;
    const Lanes<T, n> factor = x.template load<n>(i);
    const Lanes<float, n> summand = y.template load<n>(i);
    Lanes<float, n> result;
    for (int lane = 0; lane < n; ++lane) {
      result.at[lane] = fmaf(args.alpha, to_float(factor.at[lane]), summand.at[lane]);
    }
    out.template store<n>(i, result);
  });
}

// One step with decoupled weight decay. The host computes the corrections in float64: 1 - beta^step
// loses digits in float32 for beta near 1. Gradients are |G|, all other tensors float32.
template <typename G>
KEEL_SIMT_FUNCTION void adamw(const AdamwArguments& args) {
  const Global<const float> p(args.p);
  const Global<const G> g(args.g);
  const Global<const float> m(args.m);
  const Global<const float> v(args.v);
  const Global<float> p_out(args.p_out);
  const Global<float> m_out(args.m_out);
  const Global<float> v_out(args.v_out);
  for_each<4>(args.count, args.is_aligned != 0, [&](auto width, uint64_t i) {
    constexpr int n = decltype(width)::value;
    Lanes<float, n> weight = p.template load<n>(i);
    const Lanes<G, n> gradient = g.template load<n>(i);
    Lanes<float, n> first = m.template load<n>(i);
    Lanes<float, n> second = v.template load<n>(i);
    for (int lane = 0; lane < n; ++lane) {
      const float slope = to_float(gradient.at[lane]) * args.grad_scale;
      first.at[lane] = args.beta1 * first.at[lane] + args.one_minus_beta1 * slope;
      second.at[lane] = args.beta2 * second.at[lane] + args.one_minus_beta2 * slope * slope;
      const float update = first.at[lane] * args.m_correction /
                           (sqrtf(second.at[lane] * args.v_correction) + args.epsilon);
      weight.at[lane] -= args.learning_rate * (update + args.weight_decay * weight.at[lane]);
    }
    p_out.template store<n>(i, weight);
    m_out.template store<n>(i, first);
    v_out.template store<n>(i, second);
  });
}
}  // namespace
}  // namespace keel::simt

#define KEEL_SIMT_ELEMENTWISE(name, ...)                     \
  KEEL_SIMT_KERNEL(name, keel::simt::ElementwiseArguments) { \
    keel::simt::__VA_ARGS__(args);                           \
  }

KEEL_SIMT_ELEMENTWISE(cast_f32_bf16, cast<float, keel::simt::bf16>)
KEEL_SIMT_ELEMENTWISE(cast_bf16_f32, cast<keel::simt::bf16, float>)
KEEL_SIMT_ELEMENTWISE(cast_f32_f16, cast<float, keel::simt::f16>)
KEEL_SIMT_ELEMENTWISE(cast_f16_f32, cast<keel::simt::f16, float>)
KEEL_SIMT_ELEMENTWISE(cast_f16_bf16, cast<keel::simt::f16, keel::simt::bf16>)
KEEL_SIMT_ELEMENTWISE(cast_bf16_f16, cast<keel::simt::bf16, keel::simt::f16>)
KEEL_SIMT_ELEMENTWISE(cast_f32_i32, cast<float, int32_t>)
KEEL_SIMT_ELEMENTWISE(cast_i32_f32, cast<int32_t, float>)
KEEL_SIMT_ELEMENTWISE(add_f32, combine<float, keel::simt::Add>)
KEEL_SIMT_ELEMENTWISE(add_f16, combine<keel::simt::f16, keel::simt::Add>)
KEEL_SIMT_ELEMENTWISE(add_bf16, combine<keel::simt::bf16, keel::simt::Add>)
KEEL_SIMT_ELEMENTWISE(mul_f32, combine<float, keel::simt::Multiply>)
KEEL_SIMT_ELEMENTWISE(mul_f16, combine<keel::simt::f16, keel::simt::Multiply>)
KEEL_SIMT_ELEMENTWISE(mul_bf16, combine<keel::simt::bf16, keel::simt::Multiply>)
KEEL_SIMT_ELEMENTWISE(scale_f32, scale<float>)
KEEL_SIMT_ELEMENTWISE(scale_f16, scale<keel::simt::f16>)
KEEL_SIMT_ELEMENTWISE(scale_bf16, scale<keel::simt::bf16>)
KEEL_SIMT_ELEMENTWISE(axpy_f32, axpy<float>)
KEEL_SIMT_ELEMENTWISE(axpy_bf16, axpy<keel::simt::bf16>)
#undef KEEL_SIMT_ELEMENTWISE

KEEL_SIMT_KERNEL(adamw, keel::simt::AdamwArguments) {
  keel::simt::adamw<float>(args);
}
KEEL_SIMT_KERNEL(adamw_bf16, keel::simt::AdamwArguments) {
  keel::simt::adamw<keel::simt::bf16>(args);
}
KEEL_SIMT_KERNEL(adamw_f16, keel::simt::AdamwArguments) {
  keel::simt::adamw<keel::simt::f16>(args);
}
