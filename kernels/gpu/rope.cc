// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding: rotates pairs of elements by the angles of their token's position.
// 16-bit types are computed in float32 and rounded once. The output may alias x: a thread reads its
// pairs before it writes them.
#include "kernels/gpu/rows.h"

namespace keel::simt {
namespace {

// The rotation of |n| pairs, from one row of the tables; all zeroes if the tables lack the
// position.
template <int n>
struct Turn {
  Lanes<float, n> cosine = {};
  Lanes<float, n> sine = {};
  bool is_known = false;

  // |i|: the first pair, counted over all tokens.
  KEEL_SIMT_FUNCTION Turn(const RopeArguments& args, uint64_t i) {
    const Global<const int32_t> positions(args.positions);
    const int32_t position = positions[i / (args.heads * args.half)];
    is_known = position >= 0 && static_cast<uint64_t>(position) < args.table_rows;
    if (!is_known) return;
    const uint64_t at = static_cast<uint64_t>(position) * args.half + i % args.half;
    cosine = Global<const float>(args.cosines).template load<n>(at);
    sine = Global<const float>(args.sines).template load<n>(at);
    if (args.inverse == 0) return;
    for (int lane = 0; lane < n; ++lane) sine.at[lane] = -sine.at[lane];
  }

  template <typename T>
  KEEL_SIMT_FUNCTION void apply(int lane, T* first, T* second) const {
    const float a = to_float(*first);
    const float b = to_float(*second);
    const float c = cosine.at[lane];
    const float s = sine.at[lane];
    *first = Round<T>::of(is_known ? a * c - b * s : 0);
    *second = Round<T>::of(is_known ? b * c + a * s : 0);
  }
};

// The two elements of a pair are |half| apart.
template <typename T>
KEEL_SIMT_FUNCTION void rope_halves(const RopeArguments& args, uint64_t count, bool is_aligned) {
  const Global<const T> x(args.x);
  const Global<T> y(args.y);
  const bool fits = is_aligned && args.half % kLanes<T> == 0;
  for_each<kLanes<T>>(count, fits, [&](auto lanes, uint64_t i) {
    constexpr int n = decltype(lanes)::value;
    const Turn<n> turn(args, i);
    const uint64_t at = i + i / args.half * args.half;
    Lanes<T, n> first = x.template load<n>(at);
    Lanes<T, n> second = x.template load<n>(at + args.half);
    for (int lane = 0; lane < n; ++lane) turn.apply(lane, &first.at[lane], &second.at[lane]);
    y.template store<n>(at, first);
    y.template store<n>(at + args.half, second);
  });
}

// The two elements of a pair are adjacent.
template <typename T>
KEEL_SIMT_FUNCTION void rope_pairs(const RopeArguments& args, uint64_t count, bool is_aligned) {
  const Global<const T> x(args.x);
  const Global<T> y(args.y);
  const bool fits = is_aligned && args.half % 4 == 0;
  for_each<4>(count, fits, [&](auto lanes, uint64_t i) {
    constexpr int n = decltype(lanes)::value;
    const Turn<n> turn(args, i);
    if constexpr (n == 1) {  // a pair may be misaligned for one access
      T first = x[2 * i];
      T second = x[2 * i + 1];
      turn.apply(0, &first, &second);
      y[2 * i] = first;
      y[2 * i + 1] = second;
    } else {
      Lanes<T, 2 * n> both = x.template load<2 * n>(2 * i);
      for (int lane = 0; lane < n; ++lane) {
        turn.apply(lane, &both.at[2 * lane], &both.at[2 * lane + 1]);
      }
      y.template store<2 * n>(2 * i, both);
    }
  });
}

template <typename T>
KEEL_SIMT_FUNCTION void rope(const RopeArguments& args) {
  const uint64_t count = args.tokens * args.heads * args.half;
  const bool is_aligned = (args.x % 16 | args.y % 16 | args.cosines % 16 | args.sines % 16) == 0;
  if (args.pairs != 0) {
    rope_pairs<T>(args, count, is_aligned);
  } else {
    rope_halves<T>(args, count, is_aligned);
  }
}

}  // namespace
}  // namespace keel::simt

KEEL_SIMT_KERNEL(rope_f32, keel::simt::RopeArguments) {
  keel::simt::rope<float>(args);
}
KEEL_SIMT_KERNEL(rope_bf16, keel::simt::RopeArguments) {
  keel::simt::rope<keel::simt::bf16>(args);
}
KEEL_SIMT_KERNEL(rope_f16, keel::simt::RopeArguments) {
  keel::simt::rope<keel::simt::f16>(args);
}
