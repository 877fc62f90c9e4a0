// SPDX-License-Identifier: Apache-2.0
// Matrix products on the calling thread alone; ops_matmul.cc splits large products into tiles and
// spreads the tiles over the device's cores. The loops are those of Goto and van de Geijn, "Anatomy
// of High-Performance Matrix Multiplication" (2008), except that operands with a suitable layout
// are read in place.
#ifndef KEEL_BACKENDS_CPU_GEMM_GEMM_H_
#define KEEL_BACKENDS_CPU_GEMM_GEMM_H_

#include <cstdint>

namespace keel::cpu::gemm {

// A matrix of |rows| x |columns| as the product sees it. A matrix in panels stores |stride| columns
// per panel, row after row; all |stride| columns of a panel may be read.
struct Matrix {
  void* data;
  int64_t stride;
  bool transposed;
  int64_t panel = 0;  // elements between panels; 0: not in panels

  // Elements from |data| to element (row, column).
  int64_t offset(int64_t row, int64_t column) const {
    if (transposed) return column * stride + row;
    if (panel == 0) return row * stride + column;
    return column / stride * panel + row * stride + column % stride;
  }
};

// c = alpha * a b + beta * c, where a is [m,k], b is [k,n] and c [m,n] is not transposed. If beta
// is 0, c is not read. m, n, k > 0.
struct Product {
  int64_t m, n, k;
  Matrix a, b, c;
  float alpha, beta;
};

// a, b, c are float32. Equal extents and strides give equal bits. The thread keeps the packing
// buffers, at most 5 MiB. Throws std::bad_alloc.
void multiply_f32(const Product& product);

// The panel layout of a b of [k,n] that multiply_f32 reads fastest, with |data| NULL. Full panels
// take k * n elements, with n rounded up to the panel's width. A b of few columns (up to 64) stays
// row-major.
Matrix panels_of_f32(int64_t k, int64_t n);
// Copies columns [first, first + columns) of |b|, which has |k| rows, into |panels|; |first| is the
// first column of a panel. Columns of the last panel beyond |b| are set to 0.
void pack_f32(const Matrix& b, int64_t k, int64_t first, int64_t columns, const Matrix& panels);

}  // namespace keel::cpu::gemm

#endif  // KEEL_BACKENDS_CPU_GEMM_GEMM_H_
