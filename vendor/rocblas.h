// SPDX-License-Identifier: Apache-2.0
// The part of rocBLAS (librocblas.so) that is called here. Names, numbers and argument lists are
// those of rocblas-types.h, rocblas-auxiliary.h and rocblas-functions.h of ROCm 5.2, and the same
// in ROCm 6.2.
#ifndef KEEL_VENDOR_ROCBLAS_H_
#define KEEL_VENDOR_ROCBLAS_H_

#include <cstddef>
#include <cstdint>

#include "vendor/hip.h"

using rocblas_handle = struct _rocblas_handle*;
using rocblas_int = int32_t;
using rocblas_stride = int64_t;

enum rocblas_status : int {
  rocblas_status_success = 0,
  rocblas_status_invalid_handle = 1,
  rocblas_status_not_implemented = 2,
  rocblas_status_invalid_pointer = 3,
  rocblas_status_invalid_size = 4,
  rocblas_status_memory_error = 5,
  rocblas_status_internal_error = 6,
  rocblas_status_perf_degraded = 7,  // computed, slower for lack of device memory
  rocblas_status_invalid_value = 11,
  rocblas_status_excluded_from_build = 14,  // ROCm 6
  rocblas_status_arch_mismatch = 15,        // ROCm 6
};

enum rocblas_operation : int {
  rocblas_operation_none = 111,
  rocblas_operation_transpose = 112,
};

enum rocblas_datatype : int {
  rocblas_datatype_f16_r = 150,
  rocblas_datatype_f32_r = 151,
  rocblas_datatype_bf16_r = 168,
};

enum rocblas_atomics_mode : int {
  rocblas_atomics_not_allowed = 0,
  rocblas_atomics_allowed = 1,
};

enum rocblas_gemm_algo : int {
  rocblas_gemm_algo_standard = 0,
};

extern "C" {

const char* rocblas_status_to_string(rocblas_status status);
// "2.44.0.efe6a42f-dirty": major, minor, patch, commit.
rocblas_status rocblas_get_version_string(char* buf, size_t len);
// A handle belongs to the thread's current device, and serves one thread at a time.
rocblas_status rocblas_create_handle(rocblas_handle* handle);
rocblas_status rocblas_destroy_handle(rocblas_handle handle);
rocblas_status rocblas_set_stream(rocblas_handle handle, hipStream_t stream);
// Device memory of the caller for the handle's later calls. NULL returns to the library's own.
rocblas_status rocblas_set_workspace(rocblas_handle handle, void* addr, size_t size);
// Without atomics, equal calls give equal bits.
rocblas_status rocblas_set_atomics_mode(rocblas_handle handle, rocblas_atomics_mode atomics_mode);
// d = alpha * op(a) op(b) + beta * c, in column-major order, for each matrix of the batch. alpha
// and beta are in host memory and have |compute_type|.
rocblas_status rocblas_gemm_strided_batched_ex(
    rocblas_handle handle, rocblas_operation transA, rocblas_operation transB, rocblas_int m,
    rocblas_int n, rocblas_int k, const void* alpha, const void* a, rocblas_datatype a_type,
    rocblas_int lda, rocblas_stride stride_a, const void* b, rocblas_datatype b_type,
    rocblas_int ldb, rocblas_stride stride_b, const void* beta, const void* c,
    rocblas_datatype c_type, rocblas_int ldc, rocblas_stride stride_c, void* d,
    rocblas_datatype d_type, rocblas_int ldd, rocblas_stride stride_d, rocblas_int batch_count,
    rocblas_datatype compute_type, rocblas_gemm_algo algo, int32_t solution_index, uint32_t flags);

}  // extern "C"

#endif  // KEEL_VENDOR_ROCBLAS_H_
