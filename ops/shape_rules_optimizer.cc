// SPDX-License-Identifier: Apache-2.0
// Shape rules: gradient norms and clipping.
#include <keel/plugin_kit.hpp>

#include "ops/shape_parts.h"
#include "ops/shape_rules.h"

namespace keel::ops {

bool check_sum_of_squares(const keel_op_call& call, CheckError* error) {
  const keel_tensor* const before = call.inputs[1];
  return (before == nullptr || has_shape(call, error, "input before", *before, {})) &&
         has_shape(call, error, "output total", *call.outputs[0], {}) &&
         has_shape(call, error, "output found", *call.outputs[1], {});
}

bool check_clip(const keel_op_call& call, CheckError* error) {
  const keel_tensor& g = *call.inputs[0];
  if (!has_shape(call, error, "input sum_of_squares", *call.inputs[1], {})) return false;
  return kit::same_shape(*call.outputs[0], g) ||
         refuse_shape(call, error, "output g_out", *call.outputs[0], {g.shape, g.rank});
}

}  // namespace keel::ops
