// SPDX-License-Identifier: Apache-2.0
// A kernel that violates the rules by throwing, for module_test.cc.
#include <keel/cpu_kernel.h>

#include <stdexcept>

KEEL_CPU_KERNEL void throws(const keel_cpu_block* block, const void* const*) {
  if (block->index[0] % 2 == 1) throw std::runtime_error("on purpose");
}
