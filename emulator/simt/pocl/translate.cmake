# SPDX-License-Identifier: Apache-2.0
# Translates a module of SPIR-V to LLVM's form for PoCL: cmake -D LLVM_SPIRV= -D CLANG= -D MODULE=
# -D OUTPUT= -P translate.cmake
function(keel_run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "failed: ${ARGN}")
  endif()
endfunction()
keel_run("${LLVM_SPIRV}" -r "${MODULE}" -o "${OUTPUT}.bc")
keel_run("${CLANG}" -cc1 -x ir -triple spir64 -Wno-override-module -disable-llvm-passes -emit-llvm
         -o "${OUTPUT}.ll" "${OUTPUT}.bc")
# PoCL links whole modules and lacks this function. Kernels that call it are not run: pocl.h.
file(READ "${OUTPUT}.ll" text)
set(shuffle "_Z27intel_sub_group_shuffle_xorij")
string(REGEX REPLACE "\ndeclare spir_func i32 @${shuffle}\\([^\n]*"
       "\ndefine internal spir_func i32 @${shuffle}(i32 %0, i32 %1) {\n  ret i32 0\n}" text "${text}")
file(WRITE "${OUTPUT}.ll" "${text}")
keel_run("${CLANG}" -cc1 -x ir -triple spir64 -Wno-override-module -disable-llvm-passes
         -emit-llvm-bc -o "${OUTPUT}" "${OUTPUT}.ll")
file(REMOVE "${OUTPUT}.ll" "${OUTPUT}.bc")
