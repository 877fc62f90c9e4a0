// SPDX-License-Identifier: Apache-2.0
/* Kernels for module_test.cc. KEEL_VARIANT tells builds of it apart; KEEL_WANTS_MORE makes
 * one that needs a symbol which no process has. */
#include <keel/cpu_kernel.h>
#include <string.h>

#ifndef KEEL_VARIANT
#define KEEL_VARIANT 1
#endif

/* out[thread] = its number in the grid, counted in three dimensions. (uint32_t* out) */
KEEL_CPU_KERNEL void number_threads(const keel_cpu_block* block, const void* const* arguments) {
  uint32_t* out = keel_cpu_pointer(block, arguments[0]);
  const uint64_t width = (uint64_t)block->grid[0] * block->block[0];
  const uint64_t height = (uint64_t)block->grid[1] * block->block[1];
  for (uint32_t z = 0; z < block->block[2]; ++z) {
    for (uint32_t y = 0; y < block->block[1]; ++y) {
      for (uint32_t x = 0; x < block->block[0]; ++x) {
        const uint64_t at_x = (uint64_t)block->index[0] * block->block[0] + x;
        const uint64_t at_y = (uint64_t)block->index[1] * block->block[1] + y;
        const uint64_t at_z = (uint64_t)block->index[2] * block->block[2] + z;
        const uint64_t at = (at_z * height + at_y) * width + at_x;
        out[at] += (uint32_t)at + 1;
      }
    }
  }
}

/* out[block] = the sum of |shared_bytes| bytes of its own, each set to the block's number.
 * (uint32_t* out) */
KEEL_CPU_KERNEL void use_shared(const keel_cpu_block* block, const void* const* arguments) {
  uint32_t* out = keel_cpu_pointer(block, arguments[0]);
  unsigned char* bytes = block->shared;
  uint32_t sum = (uintptr_t)bytes % 64 == 0 ? 0 : 1000000;
  memset(bytes, (int)block->index[0], block->shared_bytes);
  for (uint32_t i = 0; i < block->shared_bytes; ++i) sum += bytes[i];
  out[block->index[0]] = sum;
}

/* A large argument, odd sizes around it. (uint32_t* out, uint8_t, struct of 1,000 words,
 * double, uint16_t) */
KEEL_CPU_KERNEL void take_many(const keel_cpu_block* block, const void* const* arguments) {
  uint32_t* out = keel_cpu_pointer(block, arguments[0]);
  const uint32_t* words = arguments[2];
  out[0] = *(const uint8_t*)arguments[1];
  for (int i = 0; i < 1000; ++i) out[1] += words[i];
  out[2] = (uint32_t) * (const double*)arguments[3];
  out[3] = *(const uint16_t*)arguments[4];
}

/* *out = this build. (uint32_t* out) */
KEEL_CPU_KERNEL void variant(const keel_cpu_block* block, const void* const* arguments) {
  *(uint32_t*)keel_cpu_pointer(block, arguments[0]) = KEEL_VARIANT;
}

KEEL_CPU_KERNEL uint32_t not_a_function = 7;

#ifdef KEEL_WANTS_MORE
void keel_no_process_defines_this(void);
KEEL_CPU_KERNEL void calls_it(const keel_cpu_block* block, const void* const* arguments) {
  (void)block, (void)arguments;
  keel_no_process_defines_this();
}
#endif
