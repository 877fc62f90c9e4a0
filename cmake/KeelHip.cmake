# SPDX-License-Identifier: Apache-2.0
# KEEL_HIP_CLANG: the clang of hipcc, and KEEL_HIP_BITCODE: the folder of the device libraries, for
# code objects of AMD's GPUs. KEEL_HIP_MISSING says why there are none. `./dev test --all` installs
# both; KEEL_HIP_ROOT names the root of unpacked packages.
set(KEEL_HIP_ROOT "" CACHE PATH "Where hipcc's packages are unpacked, if not in /")
# The architectures of the code objects: CDNA 2 and 3 with warps of 64 threads, RDNA 2 with 32.
# Debian's clang 15 does not know gfx942 yet.
set(KEEL_HIP_ARCHITECTURES gfx90a gfx1030 CACHE STRING "Architectures of AMD's GPUs")
find_program(KEEL_HIP_CLANG clang++
  HINTS "${KEEL_HIP_ROOT}/usr/lib/llvm-15/bin" "$ENV{ROCM_PATH}/llvm/bin" /opt/rocm/llvm/bin
  NO_DEFAULT_PATH)
find_path(KEEL_HIP_BITCODE ocml.bc
  HINTS "${KEEL_HIP_ROOT}/usr" "$ENV{ROCM_PATH}" /opt/rocm
  PATH_SUFFIXES lib/x86_64-linux-gnu/amdgcn/bitcode lib/amdgcn/bitcode amdgcn/bitcode
  NO_DEFAULT_PATH)
set(KEEL_HIP_MISSING "")
if(NOT KEEL_HIP_CLANG)
  set(KEEL_HIP_MISSING "the clang of hipcc not found")
elseif(NOT KEEL_HIP_BITCODE)
  set(KEEL_HIP_MISSING "the device libraries of ROCm not found")
endif()
