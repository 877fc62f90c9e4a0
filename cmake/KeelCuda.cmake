# SPDX-License-Identifier: Apache-2.0
# KEEL_CUDA_INCLUDE: where cuda.h and cudaTypedefs.h of CUDA 12.4 or later are; nothing is
# linked to CUDA. KEEL_CUDA_MISSING says why there is no such folder.
find_path(KEEL_CUDA_INCLUDE cudaTypedefs.h
  HINTS "$ENV{CUDA_PATH}" "$ENV{CUDA_HOME}" /usr/local/cuda PATH_SUFFIXES include)
set(KEEL_CUDA_MISSING "")
if(NOT EXISTS "${KEEL_CUDA_INCLUDE}/cuda.h")
  set(KEEL_CUDA_MISSING "cuda.h and cudaTypedefs.h not found")
else()
  file(STRINGS "${KEEL_CUDA_INCLUDE}/cuda.h" version REGEX "^#define CUDA_VERSION [0-9]+$")
  string(REGEX REPLACE "^#define CUDA_VERSION " "" version "${version}")
  if(NOT version GREATER_EQUAL 12040)
    set(KEEL_CUDA_MISSING "${KEEL_CUDA_INCLUDE}/cuda.h is older than CUDA 12.4")
  endif()
endif()
