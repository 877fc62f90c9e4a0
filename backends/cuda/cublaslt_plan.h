// SPDX-License-Identifier: Apache-2.0
// How cuBLASLt makes one product: a row-major matrix is its transpose in the order of columns,
// which the library knows best, so c^T = op(b)^T op(a)^T. b comes first, both keep their flags, and
// the bias lies along the library's rows.
#ifndef KEEL_BACKENDS_CUDA_CUBLASLT_PLAN_H_
#define KEEL_BACKENDS_CUDA_CUBLASLT_PLAN_H_

#include <cublasLt.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "backends/cuda/cublaslt.h"
#include "backends/cuda/library_products.h"

namespace keel::cuda {

// The library only reads it, from any thread.
struct ProductPlan {
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t first;   // b's, the library's A
  cublasLtMatrixLayoutOpaque_t second;  // a's
  cublasLtMatrixLayoutOpaque_t result;
  cublasLtMatmulAlgo_t algorithm;
  uint64_t workspace_bytes = 0;
  // The library has no kernel for it, or found so when it was to run it.
  std::atomic<bool> is_refused{false};
};

// The operation of |product| with its bias at |bias|, for one call: a plan is of all biases.
// Allocates nothing.
cublasStatus_t describe(const CublasLtFunctions& lt, const Product& product, const void* bias,
                        cublasLtMatmulDescOpaque_t* out_operation);

// Asks the heuristic, on the device whose context is current. A status that is_refusal() where the
// library has no kernel.
cublasStatus_t plan_product(const CublasLtFunctions& lt, cublasLtHandle_t handle,
                            const Product& product, ProductPlan* out_plan);

// Whether |status| says of a product that it cannot be made, rather than that something is wrong.
inline bool is_refusal(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH;
}

struct ProductHash {
  size_t operator()(const Product& product) const;
};

}  // namespace keel::cuda

#endif  // KEEL_BACKENDS_CUDA_CUBLASLT_PLAN_H_
