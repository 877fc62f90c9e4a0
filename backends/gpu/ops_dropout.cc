// SPDX-License-Identifier: Apache-2.0
// dropout_add, and dropout_backward, which equals dropout_add without a bias and a residual.
#include <cmath>

#include "backends/gpu/ops.h"

namespace keel::gpu {
namespace {

using simt::KernelId;

constexpr uint64_t kLanes = 4;  // elements per thread and step if all is aligned

keel_status run_dropout(Stream& stream, const keel_op_call& call, const keel_tensor* bias,
                        const keel_tensor* residual) {
  const keel_tensor& x = *call.inputs[0];
  // dropout_backward has the same.
  const auto attributes = kit::attributes<keel_op_dropout_add_attributes>(call);
  const double p = attributes.p;
  simt::DropoutArguments arguments = {};
  arguments.x = address_of(x);
  arguments.bias = address_or_none(bias);
  arguments.residual = address_or_none(residual);
  arguments.y = address_of(*call.outputs[0]);
  arguments.count = static_cast<uint64_t>(kit::element_count(x));
  if (arguments.count == 0) return KEEL_OK;
  arguments.columns = bias == nullptr ? 0 : static_cast<uint64_t>(bias->shape[0]);
  arguments.seed = static_cast<uint64_t>(attributes.seed);
  arguments.offset = static_cast<uint64_t>(attributes.offset);
  arguments.factor = static_cast<float>(1 / (1 - p));
  arguments.threshold = static_cast<uint32_t>(std::ldexp(p, 32));
  arguments.is_aligned = (arguments.x | arguments.residual | arguments.y) % 16 == 0 ? 1 : 0;
  const KernelId kernel = x.dtype == KEEL_FLOAT32    ? KernelId::dropout_f32
                          : x.dtype == KEEL_BFLOAT16 ? KernelId::dropout_bf16
                                                     : KernelId::dropout_f16;
  return launch(stream, kernel, blocks_for(stream, arguments.count, simt::kThreads * kLanes),
                arguments);
}

keel_status run_dropout_add(Stream& stream, const keel_op_call& call, void*) {
  return run_dropout(stream, call, call.inputs[1], call.inputs[2]);
}

keel_status run_dropout_backward(Stream& stream, const keel_op_call& call, void*) {
  return run_dropout(stream, call, nullptr, nullptr);
}

}  // namespace

const Op kDropoutAddOp = {"simt.dropout_add", is_dense_float_call, nullptr, run_dropout_add};
const Op kDropoutBackwardOp = {"simt.dropout_backward", is_dense_float_call, nullptr,
                               run_dropout_backward};

}  // namespace keel::gpu
