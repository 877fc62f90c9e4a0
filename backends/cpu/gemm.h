// SPDX-License-Identifier: Apache-2.0
// Matrix products on the calling thread alone; ops_matmul.cc cuts large ones into tiles and spreads
// them over the device's cores. The loops are those of Goto and van de Geijn, "Anatomy of
// High-Performance Matrix Multiplication" (2008), save that what lies well is read where it is.
#ifndef KEEL_BACKENDS_CPU_GEMM_H_
#define KEEL_BACKENDS_CPU_GEMM_H_

#include <cstdint>

namespace keel::cpu::gemm {

// A matrix of |rows| x |columns| as the product sees it. In panels each holds |stride| columns, row
// after row, all of which may be read.
struct Matrix {
  void* data;
  int64_t stride;
  bool transposed;
  int64_t panel = 0;  // elements from one panel to the next; 0: it is in none

  // Elements from data to element (row, column).
  int64_t offset(int64_t row, int64_t column) const {
    if (transposed) return column * stride + row;
    if (panel == 0) return row * stride + column;
    return column / stride * panel + row * stride + column % stride;
  }
};

// c = alpha * a b + beta * c, where a is [m,k], b is [k,n] and c [m,n] is not
// transposed. beta 0 never reads c. m, n, k > 0.
struct Product {
  int64_t m, n, k;
  Matrix a, b, c;
  float alpha, beta;
};

// a, b, c are float32. The same extents and strides give the same bits. What it packs, 5 MiB at
// most, stays with the thread. Throws std::bad_alloc.
void multiply_f32(const Product& product);

// The panels of a b of [k,n] that multiply_f32 reads fastest, without their memory: of whole ones
// k * n elements, n rounded up to the panel. Few columns stay as they are.
Matrix panels_of_f32(int64_t k, int64_t n);
// Copies columns [first, first + columns) of a |b| of |k| rows into |panels|; |first| is the first
// of a panel. What the last panel has more columns is zero.
void pack_f32(const Matrix& b, int64_t k, int64_t first, int64_t columns, const Matrix& panels);

}  // namespace keel::cpu::gemm

#endif  // KEEL_BACKENDS_CPU_GEMM_H_
