// SPDX-License-Identifier: Apache-2.0
/* What the .comp files beside do, for devices that take shared objects. */
#include <keel/cpu_kernel.h>

/* y[i] = a x[i] + y[i], one thread an element: (x, y, a, count). */
KEEL_CPU_KERNEL void axpy(const keel_cpu_block* block, const void* const* arguments) {
  const float* x = keel_cpu_pointer(block, arguments[0]);
  float* y = keel_cpu_pointer(block, arguments[1]);
  const float a = *(const float*)arguments[2];
  const uint32_t count = *(const uint32_t*)arguments[3];
  const uint32_t first = block->index[0] * block->block[0];
  for (uint32_t i = first; i < first + block->block[0] && i < count; ++i) y[i] = a * x[i] + y[i];
}

KEEL_CPU_PARAMETERS(axpy, KEEL_CPU_POINTER, KEEL_CPU_POINTER, sizeof(float), sizeof(uint32_t));

/* result[thread] += the thread's number in the grid, plus |first|: (result, first). */
KEEL_CPU_KERNEL void number(const keel_cpu_block* block, const void* const* arguments) {
  uint32_t* result = keel_cpu_pointer(block, arguments[0]);
  const uint32_t first = *(const uint32_t*)arguments[1];
  const uint32_t width = block->grid[0] * block->block[0];
  const uint32_t height = block->grid[1] * block->block[1];
  const uint32_t threads = block->block[0] * block->block[1] * block->block[2];
  for (uint32_t thread = 0; thread < threads; ++thread) {
    const uint32_t x = block->index[0] * block->block[0] + thread % block->block[0];
    const uint32_t y =
        block->index[1] * block->block[1] + thread / block->block[0] % block->block[1];
    const uint32_t z =
        block->index[2] * block->block[2] + thread / block->block[0] / block->block[1];
    const uint32_t at = (z * height + y) * width + x;
    result[at] += at + first;
  }
}
KEEL_CPU_PARAMETERS(number, KEEL_CPU_POINTER, sizeof(uint32_t));
