// SPDX-License-Identifier: Apache-2.0
/* A different kernel with the name of one in kernels.c, in a separate module. */
#include <keel/cpu_kernel.h>

/* result[thread] = 3 result[thread] + first: (result, first), for grids in x only. */
KEEL_CPU_KERNEL void number(const keel_cpu_block* block, const void* const* arguments) {
  uint32_t* result = keel_cpu_pointer(block, arguments[0]);
  const uint32_t first = *(const uint32_t*)arguments[1];
  const uint32_t begin = block->index[0] * block->block[0];
  for (uint32_t i = begin; i < begin + block->block[0]; ++i) result[i] = 3 * result[i] + first;
}
KEEL_CPU_PARAMETERS(number, KEEL_CPU_POINTER, sizeof(uint32_t));
