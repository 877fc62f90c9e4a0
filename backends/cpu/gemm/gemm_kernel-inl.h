// SPDX-License-Identifier: Apache-2.0
// The inner kernel of a product: some rows of a times a strip of columns of b, with the sums in
// registers. Compiled once per instruction set: included by gemm.cc after <hwy/highway.h>.
#if defined(KEEL_BACKENDS_CPU_GEMM_GEMM_KERNEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KEEL_BACKENDS_CPU_GEMM_GEMM_KERNEL_INL_H_
#undef KEEL_BACKENDS_CPU_GEMM_GEMM_KERNEL_INL_H_
#else
#define KEEL_BACKENDS_CPU_GEMM_GEMM_KERNEL_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstdint>
#include <utility>

HWY_BEFORE_NAMESPACE();
namespace keel::cpu::gemm {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows of a and vectors of b whose products are summed in registers: all but three of the 32 or 16
// vector registers. A step in depth loads two vectors and kRows scalars for 2 kRows multiply-adds,
// which two FMA units and two loads per cycle sustain. Where b is read without packing, four
// vectors need fewer loads and a is read once: 2 % faster with 64 columns.
#if HWY_ARCH_ARM_A64 || (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3)
constexpr int kRows = 14;
constexpr int kWideRows = 6;
#else
constexpr int kRows = 6;
constexpr int kWideRows = 0;
#endif
constexpr int kVectors = 2;
constexpr int kWideVectors = 4;

constexpr int64_t lanes() {
  return HWY_LANES(float);
}
// Columns of a strip.
constexpr int64_t kColumns = kVectors * lanes();
constexpr int64_t kWideColumns = kWideVectors * lanes();

// c = alpha * a b + beta * c with |rows| rows and |columns| columns: at most kRows and kColumns, or
// at most kWideRows and exactly kWideColumns. Element (i, l) of a is at a[i * a_row + l * a_depth];
// the rows of b are b_depth apart. Reads whole vectors of b.
struct Strip {
  int64_t rows, columns, depth;
  const float* a;
  int64_t a_row, a_depth;
  const float* b;
  int64_t b_depth;
  float* packed_b;  // destination of PackedPanelB::kPacking
  float* c;
  int64_t c_row;
  float alpha, beta;
};

// PackedPanelA: a in the caller's layout, or dense (the elements of a strip's rows interleaved, as
// in a transposed a). PackedPanelB: rows of b adjacent or nearly so, far apart, or far apart and
// packed during the product, which costs little compared with a separate packing pass.
enum class PackedPanelA { kInPlace, kDense };
enum class PackedPanelB { kNear, kFar, kPacking };

template <PackedPanelA kA, PackedPanelB kB, int kCount, int kWidth>
HWY_NOINLINE void multiply_strip(const Strip& strip) {
  using D = hn::ScalableTag<float>;
  using V = hn::Vec<D>;
  const D d;
  // Hardware prefetchers stop at the end of a page, which often holds only one row of b, so rows of
  // b are prefetched kAhead steps early. c is needed all at once at the end; prefetching c costs as
  // much as 5 % of 64 steps and is done from kDeep steps on.
  constexpr int64_t kAhead = 8;
  constexpr int64_t kDeep = 256;

  V sums[kCount][kWidth];
  HWY_UNROLL(16)
  for (int i = 0; i < kCount; ++i) {
    HWY_UNROLL(16)
    for (int v = 0; v < kWidth; ++v) sums[i][v] = hn::Zero(d);
  }
  const int64_t c_row = strip.c_row;
  if (strip.depth >= kDeep) {
    const float* c = strip.c;
    HWY_UNROLL(16)
    for (int i = 0; i < kCount; ++i, c += c_row) {
      HWY_UNROLL(16)
      for (int v = 0; v < kWidth; ++v) hwy::Prefetch(c + v * lanes());
    }
  }

  // Each pointer serves three rows: an address can encode offsets of one and two rows.
  constexpr int kGroups = (kCount + 2) / 3;
  const float* a[kGroups];
  constexpr bool kIsDense = kA == PackedPanelA::kDense;
  const int64_t a_row = kIsDense ? 1 : strip.a_row;
  const int64_t a_depth = kIsDense ? strip.a_depth : 1;
  HWY_UNROLL(16)
  for (int g = 0; g < kGroups; ++g) a[g] = strip.a + 3 * g * a_row;
  const float* HWY_RESTRICT b = strip.b;
  const int64_t b_depth = strip.b_depth;
  float* HWY_RESTRICT packed_b = strip.packed_b;
  HWY_UNROLL(2)
  for (int64_t l = strip.depth; l > 0; --l) {
    V of_b[kWidth];
    HWY_UNROLL(16)
    for (int v = 0; v < kWidth; ++v) {
      of_b[v] = hn::LoadU(d, b + v * lanes());
      if constexpr (kB != PackedPanelB::kNear) hwy::Prefetch(b + kAhead * b_depth + v * lanes());
      if constexpr (kB == PackedPanelB::kPacking) {
        // The neighbouring strip, into the second-level cache.
        __builtin_prefetch(b + (kWidth + v) * lanes(), 0, 2);
        hn::StoreU(of_b[v], d, packed_b + v * lanes());
      }
    }
    HWY_UNROLL(16)
    for (int i = 0; i < kCount; ++i) {
      const V of_a = hn::Set(d, a[i / 3][i % 3 * a_row]);
      HWY_UNROLL(16)
      for (int v = 0; v < kWidth; ++v) sums[i][v] = hn::MulAdd(of_a, of_b[v], sums[i][v]);
    }
    HWY_UNROLL(16)
    for (int g = 0; g < kGroups; ++g) a[g] += a_depth;
    b += b_depth;
    if constexpr (kB == PackedPanelB::kPacking) packed_b += kWidth * lanes();
  }

  if (strip.alpha != 1.0f) {
    const V alpha = hn::Set(d, strip.alpha);
    HWY_UNROLL(16)
    for (int i = 0; i < kCount; ++i) {
      HWY_UNROLL(16)
      for (int v = 0; v < kWidth; ++v) sums[i][v] = hn::Mul(alpha, sums[i][v]);
    }
  }
  const V beta = hn::Set(d, strip.beta);
  const bool is_added = strip.beta != 0.0f;
  float* c = strip.c;
  // Otherwise the compiler computes every row's address before the loop and keeps the addresses on
  // the stack.
  asm("" : "+r"(c));
  if (strip.columns == kWidth * lanes()) {
    HWY_UNROLL(16)
    for (int i = 0; i < kCount; ++i, c += c_row) {
      HWY_UNROLL(16)
      for (int v = 0; v < kWidth; ++v) {
        float* const at = c + v * lanes();
        hn::StoreU(is_added ? hn::MulAdd(beta, hn::LoadU(d, at), sums[i][v]) : sums[i][v], d, at);
      }
    }
    return;
  }
  const auto last = hn::FirstN(d, static_cast<size_t>(strip.columns - (kWidth - 1) * lanes()));
  HWY_UNROLL(16)
  for (int i = 0; i < kCount; ++i, c += c_row) {
    HWY_UNROLL(16)
    for (int v = 0; v < kWidth; ++v) {
      float* const at = c + v * lanes();
      V sum = sums[i][v];
      if (v < kWidth - 1) {
        if (is_added) sum = hn::MulAdd(beta, hn::LoadU(d, at), sum);
        hn::StoreU(sum, d, at);
      } else {
        if (is_added) sum = hn::MulAdd(beta, hn::MaskedLoad(last, d, at), sum);
        hn::BlendedStore(sum, last, d, at);
      }
    }
  }
}

// The kernels for 1 to kRows rows and 1 to kVectors vectors.
template <PackedPanelA kA, PackedPanelB kB>
struct Strips {
  using Function = void (*)(const Strip&);

  constexpr Strips() : functions() { fill(std::make_integer_sequence<int, kRows>()); }

  void run(const Strip& strip) const {
    const int64_t width = (strip.columns + lanes() - 1) / lanes();
    functions[width - 1][strip.rows - 1](strip);
  }

  Function functions[kVectors][kRows];

 private:
  template <int... kIndex>
  constexpr void fill(std::integer_sequence<int, kIndex...>) {
    static_assert(kVectors == 2);
    ((functions[0][kIndex] = multiply_strip<kA, kB, kIndex + 1, 1>), ...);
    ((functions[1][kIndex] = multiply_strip<kA, kB, kIndex + 1, 2>), ...);
  }
};

template <PackedPanelA kA, PackedPanelB kB>
inline constexpr Strips<kA, kB> kStrips;

// The wide kernels for 1 to kWideRows rows: a in place, rows of b near.
template <int kCount = kWideRows>
void multiply_wide_strip(const Strip& strip) {
  if constexpr (kCount > 0) {
    if (strip.rows < kCount) return multiply_wide_strip<kCount - 1>(strip);
    multiply_strip<PackedPanelA::kInPlace, PackedPanelB::kNear, kCount, kWideVectors>(strip);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace keel::cpu::gemm
HWY_AFTER_NAMESPACE();

#endif  // KEEL_BACKENDS_CPU_GEMM_GEMM_KERNEL_INL_H_
