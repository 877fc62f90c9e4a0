// Matrix products on the calling thread alone; ops_matmul.cc cuts large ones into tiles and spreads
// them over the device's cores. The loops are those of Goto and van de Geijn, "Anatomy of
// High-Performance Matrix Multiplication" (2008), save that what lies well is read where it is.
#ifndef KEEL_BACKENDS_CPU_GEMM_H_
#define KEEL_BACKENDS_CPU_GEMM_H_

#include <cstdint>

namespace keel::cpu::gemm {

// A matrix of |rows| x |columns| as the product sees it; if |transposed|, element
// (i, j) lies at data[j * stride + i], else at data[i * stride + j].
struct Matrix {
  void* data;
  int64_t stride;
  bool transposed;
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

}  // namespace keel::cpu::gemm

#endif  // KEEL_BACKENDS_CPU_GEMM_H_
