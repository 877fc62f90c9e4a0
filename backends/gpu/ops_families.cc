// SPDX-License-Identifier: Apache-2.0
// elementwise, reduce, gather, scatter where a plugin has no kernels of them: the CPU's run.
#include "backends/gpu/ops.h"

namespace keel::gpu {
namespace {

bool supports_none(const keel_op_call&) {
  return false;
}

keel_status run_none(Stream&, const keel_op_call&, void*) {
  return KEEL_UNSUPPORTED;
}

}  // namespace

const Op kElementwiseOp = {"", supports_none, nullptr, run_none};
const Op kReduceOp = {"", supports_none, nullptr, run_none};
const Op kGatherOp = {"", supports_none, nullptr, run_none};
const Op kScatterOp = {"", supports_none, nullptr, run_none};

}  // namespace keel::gpu
