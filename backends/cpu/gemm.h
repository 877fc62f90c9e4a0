// Matrix products on the calling thread alone; ops_matmul.cc cuts large ones into
// tiles and spreads them over the device's cores. Implemented by oneDNN
// (gemm_onednn.cc) or, where that is absent, by loops (gemm_loops.cc).
#ifndef KEEL_BACKENDS_CPU_GEMM_H_
#define KEEL_BACKENDS_CPU_GEMM_H_

#include <keel/abi.h>

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

// a, b, c are float32.
keel_status multiply_f32(const Product& product);

// Whether multiply_bf16 runs on this processor.
bool has_bf16();
// a, b are bfloat16, c is |c_dtype|: bfloat16 or float32; sums are float32.
keel_status multiply_bf16(const Product& product, keel_dtype c_dtype);

// Name and version of the library, of the "driver" of the device.
const char* library();

}  // namespace keel::cpu::gemm

#endif  // KEEL_BACKENDS_CPU_GEMM_H_
