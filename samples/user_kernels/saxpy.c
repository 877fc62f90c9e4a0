// SPDX-License-Identifier: Apache-2.0
/* saxpy for devices that take shared objects: called once for each block of the grid. */
#include <keel/cpu_kernel.h>

/* (const float* x, float* y, float a, uint32_t count) */
KEEL_CPU_KERNEL void saxpy(const keel_cpu_block* block, const void* const* arguments) {
  const float* x = keel_cpu_pointer(block, arguments[0]);
  float* y = keel_cpu_pointer(block, arguments[1]);
  const float a = *(const float*)arguments[2];
  const uint32_t count = *(const uint32_t*)arguments[3];
  const uint32_t begin = block->index[0] * block->block[0];
  const uint32_t end = count - begin < block->block[0] ? count : begin + block->block[0];
  for (uint32_t i = begin; i < end; ++i) y[i] += a * x[i];
}
