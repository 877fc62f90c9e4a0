// SPDX-License-Identifier: Apache-2.0
// Shape rules: packed weights.
#include <keel/plugin_kit.hpp>

#include "ops/shape_parts.h"
#include "ops/shape_rules.h"

namespace keel::ops {
namespace {

// Checks the packed tensor of weights [k,n].
bool is_packed(const keel_op_call& call, CheckError* error, const char* argument,
               const keel_tensor& packed, int64_t k, int64_t n) {
  if (!has_shape(call, error, argument, packed, {KEEL_PACKED_EXTENT(k), KEEL_PACKED_EXTENT(n)})) {
    return false;
  }
  return kit::is_contiguous(packed) ||
         refuse(call, error, "%s: packed weights are dense", argument);
}

}  // namespace

bool check_pack_weights(const keel_op_call& call, CheckError* error) {
  const keel_tensor& b = *call.inputs[0];
  if (!has_rank(call, error, "input b", b, 2)) return false;
  const bool trans_b = kit::attributes<keel_op_pack_weights_attributes>(call).trans_b != 0;
  return is_packed(call, error, "output packed", *call.outputs[0], b.shape[trans_b ? 1 : 0],
                   b.shape[trans_b ? 0 : 1]);
}

bool check_packed_matmul(const keel_op_call& call, CheckError* error) {
  const keel_tensor& a = *call.inputs[0];
  const keel_tensor& c = *call.outputs[0];
  if (!has_rank(call, error, "input a", a, 2) || !has_rank(call, error, "output c", c, 2)) {
    return false;
  }
  const bool trans_a = kit::attributes<keel_op_packed_matmul_attributes>(call).trans_a != 0;
  const int64_t m = a.shape[trans_a ? 1 : 0];
  const int64_t k = a.shape[trans_a ? 0 : 1];
  const int64_t n = c.shape[1];
  if (!is_packed(call, error, "input packed", *call.inputs[1], k, n)) return false;
  if (call.inputs[2] != nullptr && !has_shape(call, error, "input bias", *call.inputs[2], {n})) {
    return false;
  }
  return has_shape(call, error, "output c", c, {m, n});
}

}  // namespace keel::ops
