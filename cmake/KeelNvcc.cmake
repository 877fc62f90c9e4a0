# KEEL_NVCC: CUDA's compiler, for kernels alone. KEEL_NVCC_MISSING says why there is none.
include(KeelCuda)
find_program(KEEL_NVCC nvcc HINTS "$ENV{CUDA_PATH}" "$ENV{CUDA_HOME}" /usr/local/cuda
             PATH_SUFFIXES bin)
set(KEEL_NVCC_MISSING "")
if(KEEL_CUDA_MISSING)
  set(KEEL_NVCC_MISSING "${KEEL_CUDA_MISSING}")
elseif(NOT KEEL_NVCC)
  set(KEEL_NVCC_MISSING "nvcc not found")
endif()
