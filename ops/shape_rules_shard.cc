// SPDX-License-Identifier: Apache-2.0
// Shape rules: losses over a sharded vocabulary.
#include "ops/shape_parts.h"
#include "ops/shape_rules.h"

namespace keel::ops {

bool check_cross_entropy_shard(const keel_op_call& call, CheckError* error) {
  const keel_tensor& logits = *call.inputs[0];
  if (!has_rank(call, error, "input logits", logits, 2)) return false;
  const int64_t n = logits.shape[0];
  if (n != 0 && logits.shape[1] == 0) {
    return refuse(call, error, "input logits: its rows are empty, and have no largest");
  }
  return has_shape(call, error, "input labels", *call.inputs[1], {n}) &&
         has_shape(call, error, "output max", *call.outputs[0], {n}) &&
         has_shape(call, error, "output sum_exp", *call.outputs[1], {n}) &&
         has_shape(call, error, "output target", *call.outputs[2], {n});
}

bool check_cross_entropy_shard_backward(const keel_op_call& call, CheckError* error) {
  // Same tensors as for the unsharded vocabulary.
  return check_cross_entropy_backward(call, error);
}

}  // namespace keel::ops
