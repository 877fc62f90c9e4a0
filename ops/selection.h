// SPDX-License-Identifier: Apache-2.0
// Which kernel runs a call on a device.
#ifndef KEEL_OPS_SELECTION_H_
#define KEEL_OPS_SELECTION_H_

#include <keel/keel.h>

#include <string>

#include "core/device.h"
#include "core/status.h"
#include "ops/kernel_registry.h"

namespace keel::ops {

// A kernel that can run the call. The plugin's where |custom| is NULL and |device| is
// the stream's; the fallback's where |device| is another, a CPU.
struct Candidate {
  keel_op_level level = KEEL_OP_NONE;  // KEEL_OP_NONE: there is none
  uint32_t score = 0;
  uint64_t workspace_bytes = 0;
  const char* kernel = "";  // its name; lives as long as the plugin or the registry's entry
  const CustomKernel* custom = nullptr;
  Device* device = nullptr;
};

// The best kernel for |call|, which passed check_call, on |device| itself: by level,
// then by score; custom kernels count as native, and at equal score the plugin's
// wins. |out_best->level| is KEEL_OP_NONE when there is none. Allocates nothing.
Status select_kernel(Device& device, const keel_op_call& call, Candidate* out_best);

// The CPU kernel that runs |call| on staged copies for |device|; level KEEL_OP_NONE
// when there is none either, and for packed weights. Opens CPU devices that were not open yet.
Status select_fallback(Device& device, const keel_op_call& call, Candidate* out_fallback);

// Every candidate, one a line, best first; then the refusals with their reasons.
// |out_count|: how many can run it.
std::string explain_selection(Device& device, const keel_op_call& call, bool fallback_forbidden,
                              uint32_t* out_count);

}  // namespace keel::ops

#endif  // KEEL_OPS_SELECTION_H_
