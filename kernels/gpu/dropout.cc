// SPDX-License-Identifier: Apache-2.0
// dropout_add and, without bias and residual, dropout_backward. The kept elements are drawn from a
// counter and never stored. 16-bit types are computed in float32 and rounded once. The output may
// alias an input: a thread reads its elements before it writes them.
#include "kernels/gpu/simt.h"

namespace keel::simt {
namespace {

// The four words that Philox4x32-10 generates from one counter, whose upper 64 bits are 0.
struct Philox {
  uint32_t words[4];

  KEEL_SIMT_FUNCTION Philox(uint64_t counter, uint64_t key)
      : words{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0} {
    auto key0 = static_cast<uint32_t>(key);
    auto key1 = static_cast<uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
      const uint64_t product0 = uint64_t{0xD2511F53U} * words[0];
      const uint64_t product1 = uint64_t{0xCD9E8D57U} * words[2];
      words[0] = static_cast<uint32_t>(product1 >> 32) ^ words[1] ^ key0;
      words[1] = static_cast<uint32_t>(product1);
      words[2] = static_cast<uint32_t>(product0 >> 32) ^ words[3] ^ key1;
      words[3] = static_cast<uint32_t>(product0);
      key0 += 0x9E3779B9U;
      key1 += 0xBB67AE85U;
    }
  }
};

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
