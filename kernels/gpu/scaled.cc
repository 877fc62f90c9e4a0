// SPDX-License-Identifier: Apache-2.0
// cast_scaled: converts to the 8-bit float types and back, and finds the largest input magnitude.
// No atomics: each block stores its result, and one block joins the results.
#include "kernels/gpu/float8.h"

namespace keel::simt {
namespace {

// The maximum of magnitudes, compared by their bits: NaN wins.
struct LargestBits {
  KEEL_SIMT_FUNCTION static float of(float a, float b) { return bits_of(a) < bits_of(b) ? b : a; }
};

KEEL_SIMT_FUNCTION float magnitude_of(float value) {
  const uint32_t magnitude = bits_of(value) & 0x7fffffffu;
  return float_of(magnitude > kInfinityBits ? kQuietNaN : magnitude);
}

template <typename From, typename To>
KEEL_SIMT_FUNCTION void cast_scaled(const CastScaledArguments& args) {
  const Global<const From> x(args.x);
  const Global<To> y(args.y);
  const float scale = Global<const float>(args.scale)[0];
  constexpr int kLanes = kCastScaledLanes;
  for (uint64_t chunk = block_index().x; chunk < args.chunks; chunk += grid_size().x) {
    const uint64_t begin = chunk * args.chunk;  // as aligned as the tensor
    const uint64_t end = begin + args.chunk < args.count ? begin + args.chunk : args.count;
    float largest = 0;
    const auto move = [&](auto width, uint64_t i) {
      constexpr int n = decltype(width)::value;
      const uint64_t gaps = args.gap == 0 ? 0 : i / args.columns * args.gap;
      const Lanes<From, n> from = x.template load<n>(i + gaps);
      Lanes<To, n> to;
      for (int lane = 0; lane < n; ++lane) {
        const float value = to_float(from.at[lane]);
        largest = LargestBits::of(largest, magnitude_of(value));
        to.at[lane] = Round<To>::of(scale * value);
      }
      y.template store<n>(i, to);
    };
    for (uint64_t i = begin + kLanes * thread_index().x; i < end; i += kLanes * kThreads) {
      if (args.is_aligned != 0 && i + kLanes <= end) {
        move(Width<kLanes>{}, i);
      } else {
        for (uint64_t j = i; j < i + kLanes && j < end; ++j) move(Width<1>{}, j);
      }
    }
    largest = BlockTeam::reduce<LargestBits>(largest);
    if (thread_index().x == 0) {
      Global<float>(args.chunks == 1 ? args.amax : args.largest)[chunk] = largest;
    }
  }
}

}  // namespace
}  // namespace keel::simt

#define KEEL_SIMT_CAST_SCALED(name, From, To)                             \
  KEEL_SIMT_KERNEL(cast_scaled_##name, keel::simt::CastScaledArguments) { \
    keel::simt::cast_scaled<From, To>(args);                              \
  }

KEEL_SIMT_CAST_SCALED(f32_e4m3, float, keel::simt::e4m3)
KEEL_SIMT_CAST_SCALED(f32_e5m2, float, keel::simt::e5m2)
KEEL_SIMT_CAST_SCALED(bf16_e4m3, keel::simt::bf16, keel::simt::e4m3)
KEEL_SIMT_CAST_SCALED(bf16_e5m2, keel::simt::bf16, keel::simt::e5m2)
KEEL_SIMT_CAST_SCALED(f16_e4m3, keel::simt::f16, keel::simt::e4m3)
KEEL_SIMT_CAST_SCALED(f16_e5m2, keel::simt::f16, keel::simt::e5m2)
KEEL_SIMT_CAST_SCALED(e4m3_f32, keel::simt::e4m3, float)
KEEL_SIMT_CAST_SCALED(e5m2_f32, keel::simt::e5m2, float)
KEEL_SIMT_CAST_SCALED(e4m3_bf16, keel::simt::e4m3, keel::simt::bf16)
KEEL_SIMT_CAST_SCALED(e5m2_bf16, keel::simt::e5m2, keel::simt::bf16)
KEEL_SIMT_CAST_SCALED(e4m3_f16, keel::simt::e4m3, keel::simt::f16)
KEEL_SIMT_CAST_SCALED(e5m2_f16, keel::simt::e5m2, keel::simt::f16)
#undef KEEL_SIMT_CAST_SCALED

// Launched with one block.
KEEL_SIMT_KERNEL(cast_scaled_join, keel::simt::CastScaledArguments) {
  using namespace keel::simt;
  const Global<const float> found(args.largest);
  float largest = 0;
  for (uint64_t i = thread_index().x; i < args.chunks; i += kThreads) {
    largest = LargestBits::of(largest, found[i]);
  }
  largest = BlockTeam::reduce<LargestBits>(largest);
  if (thread_index().x == 0) Global<float>(args.amax)[0] = largest;
}
