# SPDX-License-Identifier: Apache-2.0
# Plugins over a driver of the kind of CUDA's: backends/gpu, compiled once for each, against the
# gpu_target.h, ccl_target.h and monitor_target.h of the plugin's own folder.
set(KEEL_GPU_CCL_SOURCES "")
foreach(source ccl_table communicator nccl scratch)
  list(APPEND KEEL_GPU_CCL_SOURCES "${PROJECT_SOURCE_DIR}/backends/gpu/${source}.cc")
endforeach()

# The target keel_|name| of the sources ARGN in the calling folder and of what plugins share.
function(keel_gpu_plugin name)
  set(sources "")
  foreach(source
      device driver event instance ipc kernels module nccl_settings ops ops_activation
      ops_attention ops_dropout ops_elementwise ops_embedding ops_functions ops_indexed ops_layout
      ops_matmul ops_norm ops_optimizer ops_reduce ops_reduction ops_rope ops_scaled ops_shard
      plugin result stream)
    list(APPEND sources "${PROJECT_SOURCE_DIR}/backends/gpu/${source}.cc")
  endforeach()
  keel_plugin(${name} ${ARGN} ${sources})
  target_include_directories(keel_${name} PRIVATE
    "${PROJECT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
  target_compile_definitions(keel_${name} PRIVATE KEEL_GPU_VERSION="${PROJECT_VERSION}")
endfunction()
