# SPDX-License-Identifier: Apache-2.0
# KEEL_NVCC: CUDA's compiler, for kernels alone, and KEEL_NVCC_VERSION, as CUDA_VERSION counts.
# KEEL_NVCC_MISSING says why there is none.
include(KeelCuda)
find_program(KEEL_NVCC nvcc HINTS "$ENV{CUDA_PATH}" "$ENV{CUDA_HOME}" /usr/local/cuda
             PATH_SUFFIXES bin)
set(KEEL_NVCC_MISSING "")
if(KEEL_CUDA_MISSING)
  set(KEEL_NVCC_MISSING "${KEEL_CUDA_MISSING}")
elseif(NOT KEEL_NVCC)
  set(KEEL_NVCC_MISSING "nvcc not found")
else()
  # One that is there may refuse the host's compiler, or fail on the host's headers.
  if(NOT DEFINED KEEL_NVCC_STATUS)
    set(probe "${CMAKE_BINARY_DIR}/nvcc_probe")
    file(WRITE "${probe}.cu" "#include <cuda_bf16.h>\n#include <cmath>\n"
                             "extern \"C\" __global__ void probe() {}\n")
    execute_process(
      COMMAND "${KEEL_NVCC}" -fatbin -std=c++20 -arch=compute_80 -o "${probe}.fatbin" "${probe}.cu"
      RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
    set(KEEL_NVCC_STATUS "${status}" CACHE INTERNAL "What nvcc ended with on a kernel")
  endif()
  if(NOT KEEL_NVCC_STATUS STREQUAL "0")
    set(KEEL_NVCC_MISSING "${KEEL_NVCC} does not compile a kernel with the host's compiler here")
  endif()
  if(NOT DEFINED KEEL_NVCC_VERSION)
    execute_process(COMMAND "${KEEL_NVCC}" --version OUTPUT_VARIABLE said ERROR_QUIET)
    set(version 99999)  # newer than any driver
    if(said MATCHES "release ([0-9]+)\\.([0-9]+)")
      math(EXPR version "${CMAKE_MATCH_1} * 1000 + ${CMAKE_MATCH_2} * 10")
    endif()
    set(KEEL_NVCC_VERSION "${version}" CACHE INTERNAL "Of the CUDA that nvcc is from")
  endif()
endif()
