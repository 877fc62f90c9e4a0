// SPDX-License-Identifier: Apache-2.0
// The ABI's collectives table, implemented with NCCL.
#ifndef KEEL_BACKENDS_GPU_CCL_TABLE_H_
#define KEEL_BACKENDS_GPU_CCL_TABLE_H_

#include <keel/abi.h>

#include <string>

namespace keel::gpu {

// NULL in a build without nccl.h.
const keel_ccl_table* ccl_table();
// Whether the NCCL in |folder| is usable. Opens the library.
bool has_collectives(const std::string& folder);

}  // namespace keel::gpu

#endif  // KEEL_BACKENDS_GPU_CCL_TABLE_H_
