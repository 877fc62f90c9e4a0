# SPDX-License-Identifier: Apache-2.0
# Compiles kernels of kernels/gpu to SPIR-V for Level Zero: by clang as for a HIP device, and by
# llvm-spirv of the same LLVM. KEEL_SPIRV_MISSING says why there are none.
#
# This file is also the script that runs the steps (cmake -P): see docs/decisions/042.
if(CMAKE_SCRIPT_MODE_FILE)
  function(keel_run)
    execute_process(COMMAND ${ARGN} RESULT_VARIABLE status)
    if(NOT status EQUAL 0)
      message(FATAL_ERROR "failed: ${ARGN}")
    endif()
  endfunction()
  # No passes: llvm-spirv translates neither what they leave (freeze) nor keeps the order of blocks
  # that SPIR-V requires. The driver optimises.
  keel_run("${CLANG}" -cc1 -x hip -triple spirv64 -fcuda-is-device -std=c++20 -O2
           -disable-llvm-passes -ffp-contract=off -nostdsysteminc -Wall -Wextra -Werror
           -isystem "${SOURCE}/kernels/gpu/level_zero/libc" "-I${SOURCE}/kernels/gpu/level_zero"
           "-I${SOURCE}" -emit-llvm -o "${OUTPUT}.ll" "${SOURCE}/kernels/gpu/${FAMILY}.cc")
  # The triple of llvm-spirv, and of each kernel the sizes of subgroups and groups, which clang
  # writes for OpenCL alone.
  file(READ "${OUTPUT}.ll" text)
  string(REGEX REPLACE "target triple = \"[^\"]*\"" "target triple = \"spir64-unknown-unknown\""
         text "${text}")
  string(REGEX REPLACE "(\ndefine [^\n]*spir_kernel [^\n]*) {\n"
         "\\1 !intel_reqd_sub_group_size !9999 !reqd_work_group_size !9998 {\n" text "${text}")
  string(APPEND text "!9999 = !{i32 ${WARP}}\n!9998 = !{i32 ${THREADS}, i32 1, i32 1}\n"
         # Only in OpenCL's modules does llvm-spirv translate calls of OpenCL's functions.
         "!opencl.ocl.version = !{!9997}\n!opencl.spir.version = !{!9997}\n"
         "!9997 = !{i32 2, i32 0}\n")
  file(WRITE "${OUTPUT}.ll" "${text}")
  keel_run("${CLANG}" -cc1 -x ir -triple spir64 -Wno-override-module -emit-llvm-bc -disable-llvm-passes
           -o "${OUTPUT}.bc" "${OUTPUT}.ll")
  keel_run("${LLVM_SPIRV}" --spirv-max-version=1.2 --spirv-ext=+SPV_INTEL_subgroups
           -o "${OUTPUT}" "${OUTPUT}.bc")
  file(REMOVE "${OUTPUT}.ll" "${OUTPUT}.bc")
  return()
endif()

find_program(KEEL_SPIRV_CLANG clang-14)
find_program(KEEL_LLVM_SPIRV llvm-spirv-14)
set(KEEL_SPIRV_MISSING "")
if(NOT KEEL_SPIRV_CLANG)
  set(KEEL_SPIRV_MISSING "clang-14 not found")
elseif(NOT KEEL_LLVM_SPIRV)
  set(KEEL_SPIRV_MISSING "llvm-spirv-14 not found")
else()
  # The program needs a library beside it.
  execute_process(COMMAND "${KEEL_LLVM_SPIRV}" --version RESULT_VARIABLE status OUTPUT_QUIET
                  ERROR_QUIET)
  if(NOT status EQUAL 0)
    set(KEEL_SPIRV_MISSING "${KEEL_LLVM_SPIRV} does not run")
  endif()
endif()
set(KEEL_SPIRV_SCRIPT "${CMAKE_CURRENT_LIST_FILE}")
