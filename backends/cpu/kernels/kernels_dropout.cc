// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/kernels_dropout.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which compiles this file once for each target.
#include <hwy/highway.h>

#include <algorithm>

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::cpu::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Both halves of the products with |factor|, which is the same in all lanes: even lanes are
// multiplied in place, odd lanes after moving one lane down.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void multiply(D d, V value, V factor, V* out_high, V* out_low) {
#if HWY_TARGET == HWY_SCALAR  // a single lane
  const uint64_t product = hn::GetLane(hn::MulEven(value, factor));
  *out_high = hn::Set(d, static_cast<uint32_t>(product >> 32));
  *out_low = hn::Set(d, static_cast<uint32_t>(product));
#else
  const hn::RepartitionToWide<D> wide;
  const auto even = hn::MulEven(value, factor);
  const V moved = hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, value)));
  const auto odd = hn::MulEven(moved, factor);
  *out_high = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
  *out_low = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even));
#endif
}

// Philox4x32-10 of the counters |counter|, |counter| + 1, ..., one lane each: four words per
// counter, counter after counter.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void philox(D d, uint64_t counter, uint64_t key, uint32_t* words) {
  const V lane = hn::Iota(d, 0u);
  const V upper = hn::Set(d, static_cast<uint32_t>(counter >> 32));
  V w0 = hn::Add(hn::Set(d, static_cast<uint32_t>(counter)), lane);
  V w1 = hn::IfThenElse(hn::Lt(w0, lane), hn::Add(upper, hn::Set(d, 1u)), upper);  // the carry
  V w2 = hn::Zero(d);
  V w3 = hn::Zero(d);
  auto key0 = static_cast<uint32_t>(key);
  auto key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    V high0, low0, high1, low1;
    multiply(d, w0, hn::Set(d, 0xD2511F53u), &high0, &low0);
    multiply(d, w2, hn::Set(d, 0xCD9E8D57u), &high1, &low1);
    w0 = hn::Xor(hn::Xor(high1, w1), hn::Set(d, key0));
    w1 = low1;
    w2 = hn::Xor(hn::Xor(high0, w3), hn::Set(d, key1));
    w3 = low0;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  hn::StoreInterleaved4(w0, w1, w2, w3, d, words);
}

void dropout_add_f32(const DropoutMask& mask, int64_t first, const float* x, const float* bias,
                     const float* residual, float* y, int64_t count) {
  const hn::ScalableTag<uint32_t> d;
  HWY_ALIGN uint32_t words[4 * hn::MaxLanes(d)];
  const auto drawn = static_cast<int64_t>(4 * hn::Lanes(d));
  for (int64_t begin = 0; begin < count; begin += drawn) {
    philox(d, mask.offset + static_cast<uint64_t>((first + begin) / 4), mask.key, words);
    for_each_vector(std::min(drawn, count - begin), [&](auto df, int64_t j) HWY_ATTR {
      const hn::RebindToUnsigned<decltype(df)> du;
      const auto word = hn::LoadU(du, words + j);
      const auto dropped = hn::RebindMask(df, hn::Lt(word, hn::Set(du, mask.threshold)));
      const int64_t i = begin + j;
      auto value = hn::LoadU(df, x + i);
      if (bias != nullptr) value = hn::Add(value, hn::LoadU(df, bias + i));
      value = hn::IfThenZeroElse(dropped, hn::Mul(value, hn::Set(df, mask.factor)));
      if (residual != nullptr) value = hn::Add(hn::LoadU(df, residual + i), value);
      hn::StoreU(value, df, y + i);
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace keel::cpu::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel::cpu::kernels {

HWY_EXPORT(dropout_add_f32);

void dropout_add_f32(const DropoutMask& mask, int64_t first, const float* x, const float* bias,
                     const float* residual, float* y, int64_t count) {
  HWY_DYNAMIC_DISPATCH(dropout_add_f32)(mask, first, x, bias, residual, y, count);
}

}  // namespace keel::cpu::kernels
#endif  // HWY_ONCE
