// SPDX-License-Identifier: Apache-2.0
// reduce, gather, scatter: no kernels yet; the CPU's run.
#include "backends/vulkan/ops.h"

namespace keel::vulkan {
namespace {

bool supports_none(const Device&, const keel_op_call&) {
  return false;
}

keel_status run_none(Stream&, const keel_op_call&, void*) {
  return KEEL_UNSUPPORTED;
}

}  // namespace

const Op kReduceOp = {"", supports_none, nullptr, run_none};
const Op kGatherOp = {"", supports_none, nullptr, run_none};
const Op kScatterOp = {"", supports_none, nullptr, run_none};

}  // namespace keel::vulkan
