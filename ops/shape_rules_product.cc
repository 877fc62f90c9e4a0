// SPDX-License-Identifier: Apache-2.0
// Shape rules: batched products.
#include <keel/plugin_kit.hpp>

#include "ops/shape_parts.h"
#include "ops/shape_rules.h"

namespace keel::ops {

bool check_batched_matmul(const keel_op_call& call, CheckError* error) {
  const keel_tensor& a = *call.inputs[0];
  const keel_tensor& b = *call.inputs[1];
  if (!has_rank(call, error, "input a", a, 3) || !has_rank(call, error, "input b", b, 3)) {
    return false;
  }
  const bool trans_a = kit::attributes<keel_op_batched_matmul_attributes>(call).trans_a != 0;
  const bool trans_b = kit::attributes<keel_op_batched_matmul_attributes>(call).trans_b != 0;
  const int64_t batch = a.shape[0];
  const int64_t m = a.shape[trans_a ? 2 : 1];
  const int64_t k = a.shape[trans_a ? 1 : 2];
  const int64_t n = b.shape[trans_b ? 1 : 2];
  return has_shape(call, error, "input b", b, {batch, trans_b ? n : k, trans_b ? k : n}) &&
         has_shape(call, error, "output c", *call.outputs[0], {batch, m, n});
}

}  // namespace keel::ops
