// SPDX-License-Identifier: Apache-2.0
/* Same as the PTX in cuda_call_figures.cc: takes one number and does nothing. */
#include <keel/cpu_kernel.h>

KEEL_CPU_KERNEL void empty(const keel_cpu_block* block, const void* const* arguments) {
  (void)block;
  (void)arguments;
}
KEEL_CPU_PARAMETERS(empty, sizeof(uint32_t));
