// SPDX-License-Identifier: Apache-2.0
// OpenBLAS called directly, if installed. The library is loaded at run time, so that no build
// depends on it.
#ifndef KEEL_BENCH_OPENBLAS_PEER_H_
#define KEEL_BENCH_OPENBLAS_PEER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "bench/product.h"

namespace keel::bench {

class OpenblasPeer {
 public:
  // Returns null if there is no OpenBLAS; |*out_why| is the reason.
  static std::unique_ptr<OpenblasPeer> open(std::string* out_why);

  const std::string& name() const { return name_; }  // "OpenBLAS 0.3.21"
  // Computes c = a b in float32 on |threads| threads: with sgemm, or sgemv if a or b is a vector.
  void multiply(const Product& product, const float* a, const float* b, float* c,
                uint32_t threads) const;
  // Returns whether the library includes the bfloat16 matrix product.
  bool has_bf16() const { return sbgemm_ != nullptr; }
  // Computes c = a b for bfloat16 a and b; c is float32.
  void multiply_bf16(const Product& product, const void* a, const void* b, float* c,
                     uint32_t threads) const;

 private:
  using Sgemm = void (*)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                         const float* a, int lda, const float* b, int ldb, float beta, float* c,
                         int ldc);
  using Sbgemm = void (*)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                          const void* a, int lda, const void* b, int ldb, float beta, float* c,
                          int ldc);
  using Sgemv = void (*)(int order, int trans, int m, int n, float alpha, const float* a, int lda,
                         const float* x, int stride_x, float beta, float* y, int stride_y);

  OpenblasPeer() = default;

  std::string name_;
  Sgemm sgemm_ = nullptr;
  Sbgemm sbgemm_ = nullptr;
  Sgemv sgemv_ = nullptr;
  void (*set_threads_)(int) = nullptr;
};

}  // namespace keel::bench

#endif  // KEEL_BENCH_OPENBLAS_PEER_H_
