// SPDX-License-Identifier: Apache-2.0
// dropout_add and, without bias and residual, dropout_backward. The kept elements are drawn from a
// counter and never stored. 16-bit types are computed in float32 and rounded once. The output may
// alias an input: a thread reads its elements before it writes them.
#include "kernels/gpu/philox.h"
#include "kernels/gpu/simt.h"

namespace keel::simt {
namespace {

// One counter serves four elements: the elements of one access if tensors are aligned.
template <typename T>
KEEL_SIMT_FUNCTION void dropout(const DropoutArguments& args) {
  const Global<const T> x(args.x);
  const Global<const T> bias(args.bias);
  const Global<const T> residual(args.residual);
  const Global<T> y(args.y);
  for_each<4>(args.count, args.is_aligned != 0, [&](auto width, uint64_t i) {
    constexpr int n = decltype(width)::value;
    const Philox random(args.offset + i / 4, args.seed);
    Lanes<T, n> value = x.template load<n>(i);
    Lanes<T, n> base = {};
    if (args.residual != 0) base = residual.template load<n>(i);
    uint64_t column = args.bias != 0 ? i % args.columns : 0;
    for (int lane = 0; lane < n; ++lane) {
      float sum = to_float(value.at[lane]);
      if (args.bias != 0) {
        sum += to_float(bias[column]);
        column = column + 1 == args.columns ? 0 : column + 1;
      }
      // Indexed by the compile-time lane if possible, so that the words stay in registers.
      const uint32_t word = n == 4 ? random.words[lane] : random.words[i % 4];
      const float kept = word >= args.threshold ? args.factor * sum : 0;
      value.at[lane] = Round<T>::of(args.residual != 0 ? to_float(base.at[lane]) + kept : kept);
    }
    y.template store<n>(i, value);
  });
}

}  // namespace
}  // namespace keel::simt

KEEL_SIMT_KERNEL(dropout_f32, keel::simt::DropoutArguments) {
  keel::simt::dropout<float>(args);
}
KEEL_SIMT_KERNEL(dropout_bf16, keel::simt::DropoutArguments) {
  keel::simt::dropout<keel::simt::bf16>(args);
}
KEEL_SIMT_KERNEL(dropout_f16, keel::simt::DropoutArguments) {
  keel::simt::dropout<keel::simt::f16>(args);
}
