# SPDX-License-Identifier: Apache-2.0
# KEEL_NCCL_INCLUDE: where nccl.h of NCCL 2.28 or later is; nothing is linked to NCCL.
# KEEL_NCCL_MISSING says why there is no such folder. After KeelCuda, whose headers it needs.
find_path(KEEL_NCCL_INCLUDE nccl.h HINTS "${KEEL_CUDA_INCLUDE}" "$ENV{NCCL_HOME}"
  PATH_SUFFIXES include)
set(KEEL_NCCL_MISSING "")
if(NOT EXISTS "${KEEL_NCCL_INCLUDE}/nccl.h")
  set(KEEL_NCCL_MISSING "nccl.h not found")
elseif(NOT EXISTS "${KEEL_CUDA_INCLUDE}/cuda_fp8.h")
  set(KEEL_NCCL_MISSING "cuda_fp8.h, which nccl.h needs, not found")
else()
  file(STRINGS "${KEEL_NCCL_INCLUDE}/nccl.h" version REGEX "^#define NCCL_(MAJOR|MINOR) [0-9]+$")
  list(TRANSFORM version REPLACE "^#define NCCL_M[A-Z]+ " "")
  list(JOIN version "." version)
  if(version VERSION_LESS 2.28)
    set(KEEL_NCCL_MISSING "${KEEL_NCCL_INCLUDE}/nccl.h is older than NCCL 2.28")
  endif()
endif()
