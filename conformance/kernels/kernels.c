// SPDX-License-Identifier: Apache-2.0
/* The kernels of the .comp files, for devices that accept shared objects. */
#include <keel/cpu_kernel.h>

/* y[i] = a x[i] + y[i], one thread per element: (x, y, a, count). */
KEEL_CPU_KERNEL void axpy(const keel_cpu_block* block, const void* const* arguments) {
  const float* x = keel_cpu_pointer(block, arguments[0]);
  float* y = keel_cpu_pointer(block, arguments[1]);
  const float a = *(const float*)arguments[2];
  const uint32_t count = *(const uint32_t*)arguments[3];
  const uint32_t first = block->index[0] * block->block[0];
  for (uint32_t i = first; i < first + block->block[0] && i < count; ++i) y[i] = a * x[i] + y[i];
}

KEEL_CPU_PARAMETERS(axpy, KEEL_CPU_POINTER, KEEL_CPU_POINTER, sizeof(float), sizeof(uint32_t));

/* result[thread] += the thread's index in the grid, plus |first|: (result, first). */
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

/* Copies |bytes| of |argument| to |to| and returns the address behind the copy. Copies byte by byte
 * through a volatile pointer, because this object is linked without memcpy. If |argument| lacks
 * its required alignment of 16 bytes, inverts the first byte of the copy. */
static unsigned char* write_back(unsigned char* to, const void* argument, uint32_t bytes) {
  volatile unsigned char* out = to;
  const unsigned char* from = argument;
  for (uint32_t i = 0; i < bytes; ++i) out[i] = from[i];
  if ((uintptr_t)argument % 16 != 0) out[0] = (unsigned char)~from[0];
  return to + bytes;
}

/* result = the bytes of all other arguments, concatenated. */
KEEL_CPU_KERNEL void values(const keel_cpu_block* block, const void* const* arguments) {
  static const uint32_t bytes[] = {1, 2, 4, 8, 16, 40, 3, 4014};
  unsigned char* result = keel_cpu_pointer(block, arguments[0]);
  for (uint32_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); ++i) {
    result = write_back(result, arguments[1 + i], bytes[i]);
  }
}
KEEL_CPU_PARAMETERS(values, KEEL_CPU_POINTER, 1, 2, 4, 8, 16, 40, 3, 4014);

/* result[thread] = the thread's block index, its index in the block, grid and block size, each in
 * x, y and z; threads from |capacity| on write nothing. */
KEEL_CPU_KERNEL void places(const keel_cpu_block* block, const void* const* arguments) {
  uint32_t* result = keel_cpu_pointer(block, arguments[0]);
  const uint32_t capacity = *(const uint32_t*)arguments[1];
  const uint32_t* size = block->block;
  const uint32_t threads = size[0] * size[1] * size[2];
  for (uint32_t i = 0; i < threads; ++i) {
    const uint32_t thread[3] = {i % size[0], i / size[0] % size[1], i / size[0] / size[1]};
    uint32_t at[3];
    for (int axis = 0; axis < 3; ++axis) at[axis] = block->index[axis] * size[axis] + thread[axis];
    const uint32_t width = block->grid[0] * size[0];
    const uint32_t height = block->grid[1] * size[1];
    const uint64_t slot = ((uint64_t)at[2] * height + at[1]) * width + at[0];
    if (slot >= capacity) continue;
    volatile uint32_t* to = result + slot * 12;
    for (int axis = 0; axis < 3; ++axis) {
      to[axis] = block->index[axis];
      to[3 + axis] = thread[axis];
      to[6 + axis] = block->grid[axis];
      to[9 + axis] = size[axis];
    }
  }
}
KEEL_CPU_PARAMETERS(places, KEEL_CPU_POINTER, sizeof(uint32_t));

/* Writes each word of the block's shared memory with its index in |result|; then result[block][i] =
 * the shared word at words - 1 - i. If the shared memory has the wrong size or alignment, all words
 * are UINT32_MAX. */
KEEL_CPU_KERNEL void shared(const keel_cpu_block* block, const void* const* arguments) {
  const uint32_t words = *(const uint32_t*)arguments[1];
  const uint32_t first = block->index[0] * words;
  uint32_t* result = (uint32_t*)keel_cpu_pointer(block, arguments[0]) + first;
  uint32_t* memory = block->shared;
  const int usable = memory != 0 && (uintptr_t)memory % 64 == 0 && block->shared_bytes == words * 4;
  for (uint32_t i = 0; usable && i < words; ++i) memory[i] = first + i;
  for (uint32_t i = 0; i < words; ++i) result[i] = usable ? memory[words - 1 - i] : UINT32_MAX;
}
KEEL_CPU_PARAMETERS(shared, KEEL_CPU_POINTER, sizeof(uint32_t));
