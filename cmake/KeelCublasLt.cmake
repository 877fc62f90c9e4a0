# SPDX-License-Identifier: Apache-2.0
# KEEL_CUBLASLT_INCLUDE: where cublasLt.h of cuBLAS 12 or later is; nothing is linked to cuBLAS.
# KEEL_CUBLASLT_MISSING says why there is no such folder. After KeelCuda, whose headers it needs.
find_path(KEEL_CUBLASLT_INCLUDE cublasLt.h HINTS "${KEEL_CUDA_INCLUDE}")
set(KEEL_CUBLASLT_MISSING "")
if(NOT EXISTS "${KEEL_CUBLASLT_INCLUDE}/cublasLt.h" OR
   NOT EXISTS "${KEEL_CUBLASLT_INCLUDE}/cublas_api.h")
  set(KEEL_CUBLASLT_MISSING "cublasLt.h not found")
else()
  file(STRINGS "${KEEL_CUBLASLT_INCLUDE}/cublas_api.h" version
    REGEX "^#define CUBLAS_VER_MAJOR [0-9]+$")
  string(REGEX REPLACE "^#define CUBLAS_VER_MAJOR " "" version "${version}")
  if(NOT version GREATER_EQUAL 12)
    set(KEEL_CUBLASLT_MISSING "${KEEL_CUBLASLT_INCLUDE}/cublasLt.h is older than cuBLAS 12")
  endif()
endif()
