// SPDX-License-Identifier: Apache-2.0
// Shape rules of dropout.
#include <keel/plugin_kit.hpp>

#include "ops/shape_parts.h"
#include "ops/shape_rules.h"

namespace keel::ops {

bool check_dropout_add(const keel_op_call& call, CheckError* error) {
  const keel_tensor& x = *call.inputs[0];
  const keel_tensor* const bias = call.inputs[1];
  const keel_tensor* const residual = call.inputs[2];
  if (bias != nullptr) {
    if (x.rank == 0) return refuse(call, error, "input x: its rank is 0, and bias has no axis");
    if (!has_shape(call, error, "input bias", *bias, {x.shape[x.rank - 1]})) return false;
  }
  if (residual != nullptr && !kit::same_shape(*residual, x)) {
    return refuse_shape(call, error, "input residual", *residual, {x.shape, x.rank});
  }
  return kit::same_shape(*call.outputs[0], x) ||
         refuse_shape(call, error, "output y", *call.outputs[0], {x.shape, x.rank});
}

}  // namespace keel::ops
