// SPDX-License-Identifier: Apache-2.0
// Vector loops for kernels that are compiled once per instruction set. Included by their sources
// after <hwy/highway.h>.
#if defined(KEEL_BACKENDS_CPU_KERNELS_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KEEL_BACKENDS_CPU_KERNELS_VECTORS_INL_H_
#undef KEEL_BACKENDS_CPU_KERNELS_VECTORS_INL_H_
#else
#define KEEL_BACKENDS_CPU_KERNELS_VECTORS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <keel/float_types.hpp>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace keel::cpu::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Loads a vector of float32, or of bfloat16, which is the upper half of a float32.
template <class D>
HWY_INLINE hn::Vec<D> load_floats(D d, const float* x) {
  return hn::LoadU(d, x);
}
template <class D>
HWY_INLINE hn::Vec<D> load_floats(D d, const bfloat16_t* x) {
  const hn::RebindToUnsigned<D> bits;
  const hn::Rebind<uint16_t, D> halves;
  const auto upper = hn::LoadU(halves, reinterpret_cast<const uint16_t*>(x));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(bits, upper)));
}

template <class D>
HWY_INLINE void store_floats(D d, hn::Vec<D> value, float* y) {
  hn::StoreU(value, d, y);
}
// Rounds like to_bfloat16.
template <class D>
HWY_INLINE void store_floats(D /*d*/, hn::Vec<D> value, bfloat16_t* y) {
  const hn::RebindToUnsigned<D> bits;
  const hn::RebindToSigned<D> whole_numbers;
  const hn::Rebind<uint16_t, D> halves;
  const auto whole = hn::BitCast(bits, value);
  const auto odd = hn::And(hn::ShiftRight<16>(whole), hn::Set(bits, 1));
  const auto rounded = hn::Add(whole, hn::Add(odd, hn::Set(bits, 0x7fff)));
  const auto quiet = hn::Or(whole, hn::Set(bits, 0x400000));
  const auto is_nan = hn::RebindMask(bits, hn::IsNaN(value));
  const auto result = hn::ShiftRight<16>(hn::IfThenElse(is_nan, quiet, rounded));
  hn::StoreU(hn::DemoteTo(halves, hn::BitCast(whole_numbers, result)), halves,
             reinterpret_cast<uint16_t*>(y));
}

// How a row of float32 is written. kPast uses non-temporal stores of whole vectors and requires a
// row aligned to a cache line; call hwy::FlushStream() afterwards. Non-temporal stores avoid
// reading the memory before writing, a quarter to a third of the traffic of layer_norm.
enum class Stores { kCached, kPast };

template <Stores kStores, class D>
HWY_INLINE void put_floats(D d, hn::Vec<D> value, float* y) {
  // Non-temporal stores of some instruction sets write at least 16 bytes.
  if constexpr (kStores == Stores::kPast && hn::MaxLanes(D()) >= 4) {
    hn::Stream(value, d, y);
  } else {
    hn::StoreU(value, d, y);
  }
}
template <Stores, class D>
HWY_INLINE void put_floats(D d, hn::Vec<D> value, bfloat16_t* y) {
  store_floats(d, value, y);
}

// Calls body(d, i) for all of [0, count), where body processes the elements i, i + 1, ... of one
// vector of d: whole vectors first, then single elements. Lambdas are marked HWY_ATTR.
template <class Body>
HWY_INLINE void for_each_vector(int64_t count, const Body& body) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) body(d, i);
  const hn::CappedTag<float, 1> one;
  for (; i < count; ++i) body(one, i);
}

// The sum of term(d, i), the vector of the elements i, i + 1, ...
template <class Term>
HWY_INLINE float vector_sum(int64_t count, const Term& term) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto even = hn::Zero(d);
  auto odd = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    even = hn::Add(even, term(d, i));
    odd = hn::Add(odd, term(d, i + lanes));
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
  const hn::CappedTag<float, 1> one;
  for (; i < count; ++i) sum += hn::GetLane(term(one, i));
  return sum;
}

// The sums of two terms; term(d, i, &first, &second) adds to both.
struct TwoSums {
  float first, second;
};
template <class Term>
HWY_INLINE TwoSums two_vector_sums(int64_t count, const Term& term) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto even_first = hn::Zero(d), odd_first = hn::Zero(d);
  auto even_second = hn::Zero(d), odd_second = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    term(d, i, &even_first, &even_second);
    term(d, i + lanes, &odd_first, &odd_second);
  }
  TwoSums sums = {hn::GetLane(hn::SumOfLanes(d, hn::Add(even_first, odd_first))),
                  hn::GetLane(hn::SumOfLanes(d, hn::Add(even_second, odd_second)))};
  const hn::CappedTag<float, 1> one;
  for (; i < count; ++i) {
    auto first = hn::Zero(one), second = hn::Zero(one);
    term(one, i, &first, &second);
    sums.first += hn::GetLane(first);
    sums.second += hn::GetLane(second);
  }
  return sums;
}

// The largest of |x|; minus infinity if |count| is 0. With NaN in |x| the result may be too small;
// the caller detects NaN by a sum over all of |x|.
HWY_INLINE float vector_largest(const float* x, int64_t count) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  // Two accumulators, so that a maximum need not wait for the previous one.
  auto even = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto odd = even;
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    even = hn::Max(even, hn::LoadU(d, x + i));
    odd = hn::Max(odd, hn::LoadU(d, x + i + lanes));
  }
  float result = hn::GetLane(hn::MaxOfLanes(d, hn::Max(even, odd)));
  for (; i < count; ++i) result = std::max(result, x[i]);
  return result;
}

}  // namespace HWY_NAMESPACE
}  // namespace keel::cpu::kernels
HWY_AFTER_NAMESPACE();

#endif  // KEEL_BACKENDS_CPU_KERNELS_VECTORS_INL_H_
