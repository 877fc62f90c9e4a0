// SPDX-License-Identifier: Apache-2.0
// The plan by which cuBLASLt computes one product. A row-major matrix is its transpose in
// column-major order, which the library handles best, so the plan computes c^T = op(b)^T op(a)^T. b
// comes first, both operands keep their transposition flags, and the bias lies along the library's
// rows.
#ifndef KEEL_BACKENDS_CUDA_CUBLASLT_PLAN_H_
#define KEEL_BACKENDS_CUDA_CUBLASLT_PLAN_H_

#include <cublasLt.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "backends/cuda/cublaslt.h"
#include "backends/gpu/library_products.h"

namespace keel::gpu {

// The library only reads a plan, from any thread.
struct ProductPlan {
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t first;   // layout of b, the library's A
  cublasLtMatrixLayoutOpaque_t second;  // layout of a
  cublasLtMatrixLayoutOpaque_t result;
  cublasLtMatmulAlgo_t algorithm;
  uint64_t workspace_bytes = 0;
  // The library has no kernel for the product, or refused the product at execution.
  std::atomic<bool> is_refused{false};
};

// Creates the operation of |product| for one call with its bias at |bias|; a plan is independent of
// the bias address. Allocates nothing.
cublasStatus_t describe(const CublasLtFunctions& lt, const Product& product, const void* bias,
                        cublasLtMatmulDescOpaque_t* out_operation);

// Queries the library's heuristic on the device of the current context. Returns a status for which
// is_refusal() is true if the library has no kernel.
cublasStatus_t plan_product(const CublasLtFunctions& lt, cublasLtHandle_t handle,
                            const Product& product, ProductPlan* out_plan);

// Whether |status| says that the library cannot compute the product, rather than reporting an
// error.
inline bool is_refusal(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH;
}

struct ProductHash {
  size_t operator()(const Product& product) const;
};

}  // namespace keel::gpu

#endif  // KEEL_BACKENDS_CUDA_CUBLASLT_PLAN_H_
