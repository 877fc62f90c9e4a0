// SPDX-License-Identifier: Apache-2.0
// elementwise, reduce, gather, scatter: no kernels yet.
#include "backends/cpu/ops/ops.h"

namespace keel::cpu {
namespace {

OpSupport no_kernel(const keel_op_call&) {
  return {};
}

void run_none(Stream&, const keel_op_call&, void*) {}

}  // namespace

const Operator kElementwiseOperator = {no_kernel, run_none};
const Operator kReduceOperator = {no_kernel, run_none};
const Operator kGatherOperator = {no_kernel, run_none};
const Operator kScatterOperator = {no_kernel, run_none};

}  // namespace keel::cpu
