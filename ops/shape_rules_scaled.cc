// SPDX-License-Identifier: Apache-2.0
// Shape rules: casts to and from 8-bit floats with a scale.
#include <keel/plugin_kit.hpp>

#include "ops/shape_parts.h"
#include "ops/shape_rules.h"

namespace keel::ops {

bool check_cast_scaled(const keel_op_call& call, CheckError* error) {
  const keel_tensor& x = *call.inputs[0];
  const keel_tensor& y = *call.outputs[0];
  if (!has_shape(call, error, "input scale", *call.inputs[1], {}) ||
      !has_shape(call, error, "output amax", *call.outputs[1], {})) {
    return false;
  }
  return kit::same_shape(y, x) || refuse_shape(call, error, "output y", y, {x.shape, x.rank});
}

}  // namespace keel::ops
