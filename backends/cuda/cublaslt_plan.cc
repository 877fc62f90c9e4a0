// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/cublaslt_plan.h"

#include <initializer_list>

namespace keel::gpu {
namespace {

cudaDataType_t type_of(keel_dtype dtype) {
  if (dtype == KEEL_FLOAT32) return CUDA_R_32F;
  return dtype == KEEL_BFLOAT16 ? CUDA_R_16BF : CUDA_R_16F;
}

int32_t transposition(bool is_transposed) {
  return is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}

// Sets attributes of |object| until the first failure.
template <typename Attribute, typename Object>
class Attributes {
 public:
  using Setter = cublasStatus_t(Object*, Attribute, const void*, size_t);

  // |status|: the result of creating |object|.
  Attributes(Setter* setter, Object* object, cublasStatus_t status)
      : setter_(setter), object_(object), status_(status) {}

  template <typename Value>
  Attributes& set(Attribute attribute, Value value) {
    if (status_ == CUBLAS_STATUS_SUCCESS) {
      status_ = setter_(object_, attribute, &value, sizeof(value));
    }
    return *this;
  }
  cublasStatus_t status() const { return status_; }

 private:
  Setter* const setter_;
  Object* const object_;
  cublasStatus_t status_;
};

// Describes matrices stored row-major as [rows, columns], with |row| elements between rows.
cublasStatus_t lay_out(const CublasLtFunctions& lt, keel_dtype dtype, int64_t rows, int64_t columns,
                       int64_t row, int64_t batch, int64_t batch_stride,
                       cublasLtMatrixLayoutOpaque_t* out_layout) {
  const cublasStatus_t made = lt.MatrixLayoutInit_internal(
      out_layout, sizeof(*out_layout), type_of(dtype), static_cast<uint64_t>(columns),
      static_cast<uint64_t>(rows), row);
  if (batch == 1) return made;
  return Attributes<cublasLtMatrixLayoutAttribute_t, cublasLtMatrixLayoutOpaque_t>(
             lt.MatrixLayoutSetAttribute, out_layout, made)
      .set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(batch))
      .set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, batch_stride)
      .status();
}

// If blocks share k, the library keeps their sums in float32 and adds them in a separate kernel, in
// a fixed order: neither in the result, which may have 16 bits, nor in order of arrival.
cublasStatus_t prefer(const CublasLtFunctions& lt, const Product& product,
                      cublasLtMatmulPreferenceOpaque_t* out_preference) {
  return Attributes<cublasLtMatmulPreferenceAttributes_t, cublasLtMatmulPreferenceOpaque_t>(
             lt.MatmulPreferenceSetAttribute, out_preference,
             lt.MatmulPreferenceInit_internal(out_preference, sizeof(*out_preference)))
      .set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, LibraryProducts::kWorkspaceBytes)
      .set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE))
      .set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, uint32_t{product.b_alignment})
      .set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, uint32_t{product.a_alignment})
      .set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, uint32_t{product.c_alignment})
      .set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, uint32_t{product.c_alignment})
      .status();
}

}  // namespace

// CUBLAS_COMPUTE_32F accumulates in float32 for all dtypes and multiplies float32 at full
// precision; TF32, with 10 bits of mantissa, is a separate compute type.
cublasStatus_t describe(const CublasLtFunctions& lt, const Product& product, const void* bias,
                        cublasLtMatmulDescOpaque_t* out_operation) {
  Attributes<cublasLtMatmulDescAttributes_t, cublasLtMatmulDescOpaque_t> attributes(
      lt.MatmulDescSetAttribute, out_operation,
      lt.MatmulDescInit_internal(out_operation, sizeof(*out_operation), CUBLAS_COMPUTE_32F,
                                 CUDA_R_32F));
  attributes.set(CUBLASLT_MATMUL_DESC_TRANSA, transposition(product.trans_b))
      .set(CUBLASLT_MATMUL_DESC_TRANSB, transposition(product.trans_a));
  if (product.bias) {
    attributes.set(CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<uint32_t>(CUBLASLT_EPILOGUE_BIAS))
        .set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<int32_t>(type_of(product.in)))
        .set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  }
  return attributes.status();
}

cublasStatus_t plan_product(const CublasLtFunctions& lt, cublasLtHandle_t handle,
                            const Product& product, ProductPlan* out_plan) {
  const Product& p = product;
  // Only the alignment of the bias matters here.
  const auto* const somewhere = reinterpret_cast<const void*>(uintptr_t{p.bias_alignment});
  cublasStatus_t status = describe(lt, p, somewhere, &out_plan->operation);
  if (status == CUBLAS_STATUS_SUCCESS) {
    status = lay_out(lt, p.in, p.trans_b ? p.n : p.k, p.trans_b ? p.k : p.n, p.b_row, p.batch,
                     p.b_batch, &out_plan->first);
  }
  if (status == CUBLAS_STATUS_SUCCESS) {
    status = lay_out(lt, p.in, p.trans_a ? p.k : p.m, p.trans_a ? p.m : p.k, p.a_row, p.batch,
                     p.a_batch, &out_plan->second);
  }
  if (status == CUBLAS_STATUS_SUCCESS) {
    status = lay_out(lt, p.out, p.m, p.n, p.c_row, p.batch, p.c_batch, &out_plan->result);
  }
  cublasLtMatmulPreferenceOpaque_t preference;
  if (status == CUBLAS_STATUS_SUCCESS) status = prefer(lt, p, &preference);
  cublasLtMatmulHeuristicResult_t found = {};
  int count = 0;
  if (status == CUBLAS_STATUS_SUCCESS) {
    status =
        lt.MatmulAlgoGetHeuristic(handle, &out_plan->operation, &out_plan->first, &out_plan->second,
                                  &out_plan->result, &out_plan->result, &preference,
                                  /*requestedAlgoCount=*/1, &found, &count);
    // The library has no kernel for a product that it considers invalid, either.
    if (status == CUBLAS_STATUS_INVALID_VALUE) status = CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (count == 0 || found.workspaceSize > LibraryProducts::kWorkspaceBytes) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  out_plan->algorithm = found.algo;
  out_plan->workspace_bytes = found.workspaceSize;
  return found.state;
}

size_t ProductHash::operator()(const Product& product) const {
  uint64_t hash = 0;
  const auto mix = [&hash](uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  };
  for (const int64_t each :
       {product.m, product.n, product.k, product.a_row, product.b_row, product.c_row, product.batch,
        product.a_batch, product.b_batch, product.c_batch}) {
    mix(static_cast<uint64_t>(each));
  }
  mix(uint64_t{product.in} << 32 | uint64_t{product.out} << 3 | (product.trans_a ? 4u : 0u) |
      (product.trans_b ? 2u : 0u) | (product.bias ? 1u : 0u));
  mix(uint64_t{product.a_alignment} << 48 | uint64_t{product.b_alignment} << 32 |
      uint64_t{product.c_alignment} << 16 | product.bias_alignment);
  return hash;
}

}  // namespace keel::gpu
