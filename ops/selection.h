// SPDX-License-Identifier: Apache-2.0
// Selects the kernel that runs a call on a device.
#ifndef KEEL_OPS_SELECTION_H_
#define KEEL_OPS_SELECTION_H_

#include <keel/keel.h>

#include <string>

#include "core/device.h"
#include "core/status.h"
#include "ops/kernel_registry.h"

namespace keel::ops {

// A kernel that can run the call. If |custom| is NULL: the plugin's kernel if |device| is the
// stream's device; the fallback kernel if |device| is a CPU device other than the stream's.
struct Candidate {
  keel_op_level level = KEEL_OP_NONE;  // KEEL_OP_NONE: no kernel
  uint32_t score = 0;
  uint64_t workspace_bytes = 0;
  const char* kernel = "";  // name; valid as long as the plugin or the registry entry
  const CustomKernel* custom = nullptr;
  Device* device = nullptr;
};

// The best kernel for |call|, which passed check_call, on |device| itself: by level, then by score.
// Custom kernels count as native; at equal score the plugin's kernel wins. |out_best->level| is
// KEEL_OP_NONE if no kernel accepts the call. Allocates nothing.
Status select_kernel(Device& device, const keel_op_call& call, Candidate* out_best);

// The CPU kernel that runs |call| on staged copies for |device|; level KEEL_OP_NONE if the CPU has
// no kernel either, and for packed weights. Opens CPU devices that were not open yet.
Status select_fallback(Device& device, const keel_op_call& call, Candidate* out_fallback);

// Lists every candidate, one per line, best first, then the refusals with their reasons.
// |out_count|: number of candidates that can run the call.
std::string explain_selection(Device& device, const keel_op_call& call, bool fallback_forbidden,
                              uint32_t* out_count);

}  // namespace keel::ops

#endif  // KEEL_OPS_SELECTION_H_
