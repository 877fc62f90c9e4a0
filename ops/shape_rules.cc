// SPDX-License-Identifier: Apache-2.0
#include "ops/shape_rules.h"

#include <cmath>
#include <cstdio>
#include <keel/plugin_kit.hpp>

#include "ops/shape_parts.h"

namespace keel::ops {
namespace {

// Returns the range of values that fill converts to |dtype|; returns false for float types, which
// take every value.
bool integer_range(keel_dtype dtype, double* out_minimum, double* out_beyond) {
  switch (dtype) {
    case KEEL_INT32:
      *out_minimum = -0x1p31;
      *out_beyond = 0x1p31;
      return true;
    case KEEL_INT64:
      *out_minimum = -0x1p63;
      *out_beyond = 0x1p63;
      return true;
    case KEEL_UINT8:
      *out_minimum = 0;
      *out_beyond = 256;
      return true;
    default:
      return false;
  }
}

// Returns whether int32 has an index for every row of a table that starts at attribute first. A
// table that starts at 0 may be longer: rows beyond int32 are never read.
bool has_range(const keel_op_call& call, CheckError* error, int64_t rows) {
  constexpr int64_t kIndices = int64_t{1} << 31;
  const int64_t first = kit::attributes<keel_op_embedding_attributes>(call).first;
  if (first == 0 || rows <= kIndices - first) return true;
  return refuse(call, error, "attribute first: %lld and %lld rows from there on reach beyond 2^31",
                static_cast<long long>(first), static_cast<long long>(rows));
}

}  // namespace

bool check_fill(const keel_op_call& call, CheckError* error) {
  double minimum = 0;
  double beyond = 0;
  if (!integer_range(call.outputs[0]->dtype, &minimum, &beyond)) return true;
  const double value = kit::attributes<keel_op_fill_attributes>(call).value;
  if (value >= minimum && std::trunc(value) < beyond) return true;
  return refuse(call, error, "attribute value: %g does not fit %s", value,
                kit::dtype_name(call.outputs[0]->dtype));
}

bool check_elementwise(const keel_op_call& call, CheckError* error) {
  const keel_tensor& first = *call.inputs[0];
  for (uint32_t i = 1; i < call.input_count; ++i) {
    if (kit::same_shape(*call.inputs[i], first)) continue;
    char argument[64];
    std::snprintf(argument, sizeof(argument), "input %s", find_schema(call.op)->inputs[i].name);
    return refuse_shape(call, error, argument, *call.inputs[i], {first.shape, first.rank});
  }
  for (uint32_t o = 0; o < call.output_count; ++o) {
    if (kit::same_shape(*call.outputs[o], first)) continue;
    char argument[64];
    std::snprintf(argument, sizeof(argument), "output %s", find_schema(call.op)->outputs[o].name);
    return refuse_shape(call, error, argument, *call.outputs[o], {first.shape, first.rank});
  }
  return true;
}

bool check_sum(const keel_op_call& call, CheckError* error) {
  const keel_tensor& x = *call.inputs[0];
  const keel_tensor& y = *call.outputs[0];
  if (!has_rank(call, error, "input x", x, 2)) return false;
  switch (kit::attributes<keel_op_sum_attributes>(call).axis) {
    case 0:
      return has_shape(call, error, "output y", y, {x.shape[1]});
    case 1:
      return has_shape(call, error, "output y", y, {x.shape[0]});
    default:
      return has_shape(call, error, "output y", y, {});
  }
}

bool check_matmul(const keel_op_call& call, CheckError* error) {
  const keel_tensor& a = *call.inputs[0];
  const keel_tensor& b = *call.inputs[1];
  if (!has_rank(call, error, "input a", a, 2) || !has_rank(call, error, "input b", b, 2)) {
    return false;
  }
  const bool trans_a = kit::attributes<keel_op_matmul_attributes>(call).trans_a != 0;
  const bool trans_b = kit::attributes<keel_op_matmul_attributes>(call).trans_b != 0;
  const int64_t m = a.shape[trans_a ? 1 : 0];
  const int64_t k = a.shape[trans_a ? 0 : 1];
  const int64_t n = b.shape[trans_b ? 0 : 1];
  if (b.shape[trans_b ? 1 : 0] != k) {
    return refuse(call, error, "input b: it has %lld along k, input a has %lld",
                  static_cast<long long>(b.shape[trans_b ? 1 : 0]), static_cast<long long>(k));
  }
  if (call.inputs[2] != nullptr && !has_shape(call, error, "input bias", *call.inputs[2], {n})) {
    return false;
  }
  return has_shape(call, error, "output c", *call.outputs[0], {m, n});
}

bool check_embedding(const keel_op_call& call, CheckError* error) {
  const keel_tensor& table = *call.inputs[0];
  const keel_tensor& indices = *call.inputs[1];
  return has_rank(call, error, "input table", table, 2) &&
         has_rank(call, error, "input indices", indices, 1) &&
         has_shape(call, error, "output out", *call.outputs[0],
                   {indices.shape[0], table.shape[1]}) &&
         has_range(call, error, table.shape[0]);
}

bool check_embedding_backward(const keel_op_call& call, CheckError* error) {
  const keel_tensor& dout = *call.inputs[0];
  const keel_tensor& indices = *call.inputs[1];
  const keel_tensor& dtable = *call.outputs[0];
  return has_rank(call, error, "input dout", dout, 2) &&
         has_shape(call, error, "input indices", indices, {dout.shape[0]}) &&
         has_rank(call, error, "output dtable", dtable, 2) &&
         has_shape(call, error, "output dtable", dtable, {dtable.shape[0], dout.shape[1]}) &&
         has_range(call, error, dtable.shape[0]);
}

bool check_cross_entropy(const keel_op_call& call, CheckError* error) {
  const keel_tensor& logits = *call.inputs[0];
  if (!has_rank(call, error, "input logits", logits, 2)) return false;
  const int64_t n = logits.shape[0];
  if (n != 0 && logits.shape[1] == 0) {
    return refuse(call, error, "input logits: its rows are empty, and have no softmax");
  }
  return has_shape(call, error, "input labels", *call.inputs[1], {n}) &&
         has_shape(call, error, "output loss", *call.outputs[0], {n}) &&
         has_shape(call, error, "output logsumexp", *call.outputs[1], {n});
}

bool check_cross_entropy_backward(const keel_op_call& call, CheckError* error) {
  const keel_tensor& logits = *call.inputs[0];
  if (!has_rank(call, error, "input logits", logits, 2)) return false;
  const int64_t n = logits.shape[0];
  return has_shape(call, error, "input labels", *call.inputs[1], {n}) &&
         has_shape(call, error, "input logsumexp", *call.inputs[2], {n}) &&
         has_shape(call, error, "output dlogits", *call.outputs[0], {n, logits.shape[1]});
}

}  // namespace keel::ops
