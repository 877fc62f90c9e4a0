// SPDX-License-Identifier: Apache-2.0
// Random words for kernels that are compiled once per instruction set. Included by their sources
// after <hwy/highway.h>.
#if defined(KEEL_BACKENDS_CPU_KERNELS_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KEEL_BACKENDS_CPU_KERNELS_PHILOX_INL_H_
#undef KEEL_BACKENDS_CPU_KERNELS_PHILOX_INL_H_
#else
#define KEEL_BACKENDS_CPU_KERNELS_PHILOX_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

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

}  // namespace HWY_NAMESPACE
}  // namespace keel::cpu::kernels
HWY_AFTER_NAMESPACE();

#endif  // KEEL_BACKENDS_CPU_KERNELS_PHILOX_INL_H_
