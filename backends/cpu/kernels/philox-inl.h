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

// The four words of some counters, one counter in each lane of 64 bits, of which the lower 32
// count: a product of two words then needs one multiplication and one shift.
template <class D>
struct PhiloxState {
  using V = hn::Vec<D>;

  // From counter |counter| on.
  HWY_INLINE PhiloxState(D d, uint64_t counter)
      : w0(hn::Add(hn::Set(d, counter), hn::Iota(d, 0u))),
        w1(hn::ShiftRight<32>(w0)),
        w2(hn::Zero(d)),
        w3(hn::Zero(d)) {}

  HWY_INLINE void round(D d, uint32_t key0, uint32_t key1) {
    const V product0 = multiply(w0, 0xD2511F53u);
    const V product2 = multiply(w2, 0xCD9E8D57u);
    w0 = hn::Xor3(hn::ShiftRight<32>(product2), w1, hn::Set(d, uint64_t{key0}));
    w1 = product2;
    w2 = hn::Xor3(hn::ShiftRight<32>(product0), w3, hn::Set(d, uint64_t{key1}));
    w3 = product0;
  }

  // Counter after counter.
  HWY_INLINE void store(D d, uint32_t* words) const {
    hn::StoreInterleaved2(pair(d, w0, w1), pair(d, w2, w3), d, reinterpret_cast<uint64_t*>(words));
  }

 private:
  static HWY_INLINE V multiply(V word, uint32_t factor) {
#if HWY_TARGET == HWY_SCALAR
    const D d;
    return hn::Mul(hn::And(word, hn::Set(d, uint64_t{0xffffffff})), hn::Set(d, uint64_t{factor}));
#else
    const hn::RepartitionToNarrow<D> halves;
    return hn::MulEven(hn::BitCast(halves, word), hn::Set(halves, factor));
#endif
  }

  // |first| in the lower half of each lane, |second| in the upper.
  static HWY_INLINE V pair(D d, V first, V second) {
    const V lower = hn::And(first, hn::Set(d, uint64_t{0xffffffff}));
    return hn::Or(lower, hn::ShiftLeft<32>(second));
  }

  V w0, w1, w2, w3;
};

// Counters whose words philox writes at a time: two vectors of lanes of 64 bits.
template <class D>
HWY_INLINE size_t philox_counters(D d) {
  return 2 * hn::Lanes(d);
}

// Philox4x32-10 of the counters |counter|, |counter| + 1, ..., philox_counters(d) of them: four
// words per counter, counter after counter. |words| is aligned to a vector. Two states at a time,
// since a round waits for the one before.
template <class D>
HWY_INLINE void philox(D d, uint64_t counter, uint64_t key, uint32_t* words) {
  const size_t lanes = hn::Lanes(d);
  PhiloxState<D> lower(d, counter);
  PhiloxState<D> upper(d, counter + lanes);
  auto key0 = static_cast<uint32_t>(key);
  auto key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    lower.round(d, key0, key1);
    upper.round(d, key0, key1);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  lower.store(d, words);
  upper.store(d, words + 4 * lanes);
}

}  // namespace HWY_NAMESPACE
}  // namespace keel::cpu::kernels
HWY_AFTER_NAMESPACE();

#endif  // KEEL_BACKENDS_CPU_KERNELS_PHILOX_INL_H_
