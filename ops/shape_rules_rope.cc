// SPDX-License-Identifier: Apache-2.0
// Shape rules of rotary positions.
#include "ops/shape_parts.h"
#include "ops/shape_rules.h"

namespace keel::ops {

bool check_rope(const keel_op_call& call, CheckError* error) {
  const keel_tensor& x = *call.inputs[0];
  const keel_tensor& cosines = *call.inputs[1];
  if (!has_rank(call, error, "input x", x, 3) || !has_rank(call, error, "input cos", cosines, 2)) {
    return false;
  }
  if (x.shape[2] % 2 != 0) return refuse(call, error, "input x: its heads have no pairs");
  const int64_t positions = cosines.shape[0];
  const int64_t half = x.shape[2] / 2;
  return has_shape(call, error, "input cos", cosines, {positions, half}) &&
         has_shape(call, error, "input sin", *call.inputs[2], {positions, half}) &&
         has_shape(call, error, "input positions", *call.inputs[3], {x.shape[0]}) &&
         has_shape(call, error, "output y", *call.outputs[0], {x.shape[0], x.shape[1], x.shape[2]});
}

}  // namespace keel::ops
