// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/gemm/gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/gemm/gemm.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which compiles this file once for each target.
#include <hwy/highway.h>

#include <algorithm>

#include "backends/cpu/gemm/gemm_blocks.h"
#include "backends/cpu/gemm/gemm_dot-inl.h"
#include "backends/cpu/gemm/gemm_kernel-inl.h"
#include "backends/cpu/gemm/gemm_pack-inl.h"
#include "backends/cpu/runtime/scratch.h"

HWY_BEFORE_NAMESPACE();
namespace keel::cpu::gemm {
namespace HWY_NAMESPACE {

// The calling thread's memory for packed panels during a product.
Scratch& packed_of_thread() {
  thread_local Scratch scratch;
  return scratch;
}

class Multiplication {
 public:
  explicit Multiplication(const Product& product)
      : product_(product),
        blocks_(blocks_of(product, kColumns)),
        is_wide_(kWideRows > 0 && blocks_.reads_narrow_b && is_worth_wide_strips(product)),
        rows_of_strip_(equal_part(product.m, is_wide_ ? kWideRows : kRows, 1)) {
    // At most 4 MiB of a.
    constexpr int64_t kMostRows = 2048;
    constexpr int64_t kLine = Scratch::kAlignment / sizeof(float);
    rows_ = equal_part(product.m, kMostRows, rows_of_strip_);
    const int64_t a_size =
        blocks_.packs_a ? (rows_ * blocks_.depth + kLine - 1) / kLine * kLine : 0;
    const int64_t b_columns = blocks_.packs_b ? blocks_.columns + kColumns : lanes();
    const int64_t b_size = b_columns * blocks_.depth + lanes();  // pack_lines writes beyond
    auto* const room = static_cast<float*>(
        packed_of_thread().room(static_cast<size_t>(a_size + b_size) * sizeof(float)));
    packed_a_ = room;
    packed_b_ = room + a_size;
  }

  void run() {
    const Product& p = product_;
    for (int64_t i = 0; i < p.m; i += rows_) {
      const int64_t rows = std::min(rows_, p.m - i);
      for (int64_t l = 0; l < p.k; l += blocks_.depth) {
        const int64_t depth = std::min(blocks_.depth, p.k - l);
        if (blocks_.packs_a) pack_a(i, rows, l, depth);
        for (int64_t j = 0; j < p.n; j += blocks_.columns) {
          const int64_t columns = std::min(blocks_.columns, p.n - j);
          pack_b(j, columns, l, depth);
          multiply(i, rows, j, columns, l, depth);
        }
      }
    }
  }

 private:
  // Wide strips need whole strips of columns, and an a too large for the first-level cache to keep
  // for a second pass.
  static bool is_worth_wide_strips(const Product& product) {
    constexpr int64_t kLarge = int64_t{1} << 14;  // elements
    return product.b.panel == 0 && !product.a.transposed && product.m * product.k >= kLarge &&
           product.n % kWideColumns == 0;
  }

  const float* a_at(int64_t i, int64_t l) const { return at(product_.a, i, l); }
  const float* b_at(int64_t l, int64_t j) const { return at(product_.b, l, j); }
  static const float* at(const Matrix& matrix, int64_t row, int64_t column) {
    return static_cast<const float*>(matrix.data) + matrix.offset(row, column);
  }

  // Packs groups of as many rows as a strip has; a group interleaves its rows element by element.
  void pack_a(int64_t first, int64_t rows, int64_t l, int64_t depth) {
    const Matrix& a = product_.a;
    const int64_t width = rows_of_strip_;
    const int64_t whole = rows / width * width;
    const int64_t left = rows - whole;
    if (a.transposed) {
      pack_rows(a_at(first, l), a.stride, depth, whole / width, width, packed_a_);
      if (left == 0) return;
      pack_rows(a_at(first + whole, l), a.stride, depth, 1, left, packed_a_ + whole * depth);
      return;
    }
    for (int64_t i = 0; i < rows; i += width) {
      const int64_t count = std::min(width, rows - i);
      pack_lines(a_at(first + i, l), a.stride, count, depth, count, packed_a_ + i * depth);
    }
  }

  static int64_t whole_vectors(int64_t columns) {
    return (columns + lanes() - 1) / lanes() * lanes();
  }

  // Packs strips of kColumns, row after row; the last strip has as many vectors as it needs. Skips
  // the columns of read_in_place().
  void pack_b(int64_t first, int64_t columns, int64_t l, int64_t depth) {
    const Matrix& b = product_.b;
    const int64_t whole = b.transposed ? columns / kColumns * kColumns : read_in_place(columns);
    const int64_t left = columns - whole;
    if (b.transposed) {
      for (int64_t j = 0; j < whole; j += kColumns) {
        pack_lines(b_at(l, first + j), b.stride, kColumns, depth, kColumns, packed_b_ + j * depth);
      }
    }
    if (left == 0) return;
    float* const to = packed_b_ + (blocks_.packs_b ? whole * depth : 0);
    const int64_t width = whole_vectors(left);
    if (b.transposed) {
      pack_lines(b_at(l, first + whole), b.stride, left, depth, width, to);
      return;
    }
    for (int64_t q = 0; q < depth; ++q) {
      const float* const from = b_at(l + q, first + whole);
      for (int64_t i = 0; i < width; i += lanes()) {
        copy_part(from + i, static_cast<size_t>(std::min(lanes(), left - i)), to + q * width + i);
      }
    }
  }

  // The columns of b, out of |columns|, that the first rows of a read in place: all whole vectors
  // if b is not packed, all whole strips if b is packed. Panels end with a vector.
  int64_t read_in_place(int64_t columns) const {
    if (product_.b.panel != 0) return columns;
    if (!blocks_.packs_b) return columns / lanes() * lanes();
    return product_.b.transposed ? 0 : columns / kColumns * kColumns;
  }

  void multiply(int64_t first_row, int64_t rows, int64_t first, int64_t columns, int64_t l,
                int64_t depth) {
    const Product& p = product_;
    Strip strip = {};
    strip.depth = depth;
    strip.c_row = p.c.stride;
    strip.alpha = p.alpha;
    strip.beta = l == 0 ? p.beta : 1.0f;
    const PackedPanelB in_place_b =
        blocks_.reads_narrow_b ? PackedPanelB::kNear : PackedPanelB::kFar;
    const int64_t in_place_columns = is_wide_ ? kWideColumns : kColumns;
    for (int64_t i = 0; i < rows; i += rows_of_strip_) {
      strip.rows = std::min(rows_of_strip_, rows - i);
      strip.a = blocks_.packs_a ? packed_a_ + i * depth : a_at(first_row + i, l);
      strip.a_row = p.a.stride;
      strip.a_depth = blocks_.packs_a ? strip.rows : p.a.stride;
      float* const c = static_cast<float*>(p.c.data) + (first_row + i) * p.c.stride + first;
      const int64_t in_place = blocks_.packs_b && i > 0 ? 0 : read_in_place(columns);
      strip.b_depth = p.b.stride;
      for (int64_t j = 0; j < in_place; j += in_place_columns) {
        strip.columns = std::min(in_place_columns, in_place - j);
        strip.b = b_at(l, first + j);
        strip.packed_b = packed_b_ + j * depth;
        strip.c = c + j;
        run(blocks_.packs_b ? PackedPanelB::kPacking : in_place_b, strip);
      }
      for (int64_t j = in_place; j < columns; j += kColumns) {
        strip.columns = std::min(kColumns, columns - j);
        strip.b = packed_b_ + (blocks_.packs_b ? j : j - in_place) * depth;
        strip.b_depth = whole_vectors(strip.columns);
        strip.c = c + j;
        run(PackedPanelB::kNear, strip);
      }
    }
  }

  void run(PackedPanelB b, const Strip& strip) const {
    if (is_wide_) return multiply_wide_strip(strip);
    blocks_.packs_a || product_.a.transposed ? run<PackedPanelA::kDense>(b, strip)
                                             : run<PackedPanelA::kInPlace>(b, strip);
  }

  template <PackedPanelA kA>
  static void run(PackedPanelB b, const Strip& strip) {
    switch (b) {
      case PackedPanelB::kNear:
        return kStrips<kA, PackedPanelB::kNear>.run(strip);
      case PackedPanelB::kFar:
        return kStrips<kA, PackedPanelB::kFar>.run(strip);
      case PackedPanelB::kPacking:
        return kStrips<kA, PackedPanelB::kPacking>.run(strip);
    }
  }

  const Product& product_;
  const Blocks blocks_;
  const bool is_wide_;
  const int64_t rows_of_strip_;
  int64_t rows_ = 0;  // of a, packed together
  float* packed_a_ = nullptr;
  float* packed_b_ = nullptr;
};

void multiply(const Product& product) {
  if (is_along_depth(product)) return multiply_along_depth(product);
  Multiplication(product).run();
}

}  // namespace HWY_NAMESPACE
}  // namespace keel::cpu::gemm
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel::cpu::gemm {

HWY_EXPORT(multiply);

void multiply_f32(const Product& product) {
  HWY_DYNAMIC_DISPATCH(multiply)(product);
}

}  // namespace keel::cpu::gemm
#endif
