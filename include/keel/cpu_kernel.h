// SPDX-License-Identifier: Apache-2.0
/* A kernel on the CPU backend: an exported C function of a shared object
 * (KEEL_BINARY_SHARED_OBJECT), which the backend calls once for each block of a launch's grid, on
 * several threads at once. The function loops over the threads of its block itself:
 *
 *   KEEL_CPU_KERNEL void saxpy(const keel_cpu_block* block, const void* const* arguments) {
 *     const float* x = keel_cpu_pointer(block, arguments[0]);
 *     float* y = keel_cpu_pointer(block, arguments[1]);
 *     const float a = *(const float*)arguments[2];
 *     const uint32_t count = *(const uint32_t*)arguments[3];
 *     const uint32_t first = block->index[0] * block->block[0];
 *     for (uint32_t i = first; i < first + block->block[0] && i < count; ++i) y[i] += a * x[i];
 *   }
 *
 * Rules: blocks run in any order and must not wait for each other; a kernel neither calls Keel nor
 * throws an exception to the backend. A kernel runs with the process's rights: load only files that
 * you would link. C11 and C++. */
#ifndef KEEL_CPU_KERNEL_H_
#define KEEL_CPU_KERNEL_H_

#include <stdint.h>

/* Precedes the definition of a kernel: exports the function under its plain name. */
#ifdef __cplusplus
#define KEEL_CPU_KERNEL extern "C" __attribute__((visibility("default")))
extern "C" {
#else
#define KEEL_CPU_KERNEL __attribute__((visibility("default")))
#endif

/* One block of a launch. Valid during the call; members are only ever appended. */
typedef struct keel_cpu_block {
  uint32_t size;     /* bytes of this struct in the backend's version */
  uint32_t index[3]; /* of this block in the grid; blockIdx */
  uint32_t grid[3];  /* in blocks; gridDim */
  uint32_t block[3]; /* in threads; blockDim */
  uint32_t shared_bytes;
  uint32_t reserved;
  void* shared; /* dynamic_shared_bytes of the launch for this block alone, aligned to 64,
                   not zeroed; NULL without. At most 1 MiB */
  /* For keel_cpu_pointer: device addresses from |window| on are mapped at |host|. */
  uintptr_t window;
  uint64_t window_bytes;
  uintptr_t host;
} keel_cpu_block;

/* |arguments[i]| points to a copy of the launch's argument i, aligned to 16. */
typedef void (*keel_cpu_kernel)(const keel_cpu_block* block, const void* const* arguments);

/* Host address of the device memory at |address|. The host must not dereference device addresses;
 * with KEEL_CPU_GUARD=1 they fault. */
static inline void* keel_cpu_address(const keel_cpu_block* block, const void* address) {
  const uintptr_t offset = (uintptr_t)address - block->window;
  return (void*)(offset < block->window_bytes ? block->host + offset : (uintptr_t)address);
}

/* Host address for an argument that is a device pointer. */
static inline void* keel_cpu_pointer(const keel_cpu_block* block, const void* argument) {
  return keel_cpu_address(block, *(const void* const*)argument);
}

/* Parameters of a kernel, for an interface whose launches pass no sizes (CUDA's, over the emulated
 * chip; the CPU backend needs none): the bytes of each argument, and KEEL_CPU_POINTER for a device
 * pointer.
 *
 *   KEEL_CPU_PARAMETERS(saxpy, KEEL_CPU_POINTER, KEEL_CPU_POINTER, 4, 4); */
#define KEEL_CPU_POINTER_FLAG 0x80000000U
#define KEEL_CPU_POINTER (KEEL_CPU_POINTER_FLAG | 8U)
#define KEEL_CPU_PARAMETERS(kernel, ...)                                              \
  __attribute__((visibility("default"))) extern const uint32_t kernel##_parameters[]; \
  const uint32_t kernel##_parameters[] = {__VA_ARGS__, 0}

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* KEEL_CPU_KERNEL_H_ */
