// SPDX-License-Identifier: Apache-2.0
// Shape rules of activations of rows.
#include <keel/plugin_kit.hpp>

#include "ops/shape_rules.h"

namespace keel::ops {
namespace {

bool is_matrix(const keel_op_call& call, CheckError* error, const char* argument,
               const keel_tensor& tensor, int64_t rows, int64_t columns) {
  return (tensor.rank == 2 && tensor.shape[0] == rows && tensor.shape[1] == columns) ||
         refuse(call, error, "%s: its shape is not [%lld,%lld]", argument,
                static_cast<long long>(rows), static_cast<long long>(columns));
}

bool has_rank_2(const keel_op_call& call, CheckError* error, const keel_tensor& x) {
  return x.rank == 2 || refuse(call, error, "input x: its rank is %u, not 2", x.rank);
}

bool has_halves(const keel_op_call& call, CheckError* error) {
  const keel_tensor& x = *call.inputs[0];
  return has_rank_2(call, error, x) &&
         (x.shape[1] % 2 == 0 || refuse(call, error, "input x: its rows have no halves"));
}

// Checks x and, if present, the bias of its columns.
bool has_bias(const keel_op_call& call, CheckError* error) {
  const keel_tensor& x = *call.inputs[0];
  const keel_tensor* const bias = call.inputs[1];
  return has_rank_2(call, error, x) &&
         (bias == nullptr || (bias->rank == 1 && bias->shape[0] == x.shape[1]) ||
          refuse(call, error, "input bias: its shape is not [%lld]",
                 static_cast<long long>(x.shape[1])));
}

}  // namespace

bool check_swiglu(const keel_op_call& call, CheckError* error) {
  const keel_tensor& x = *call.inputs[0];
  return has_halves(call, error) &&
         is_matrix(call, error, "output y", *call.outputs[0], x.shape[0], x.shape[1] / 2);
}

bool check_swiglu_backward(const keel_op_call& call, CheckError* error) {
  const keel_tensor& x = *call.inputs[0];
  return has_halves(call, error) &&
         is_matrix(call, error, "input dy", *call.inputs[1], x.shape[0], x.shape[1] / 2) &&
         is_matrix(call, error, "output dx", *call.outputs[0], x.shape[0], x.shape[1]);
}

bool check_bias_gelu(const keel_op_call& call, CheckError* error) {
  const keel_tensor& x = *call.inputs[0];
  return has_bias(call, error) &&
         is_matrix(call, error, "output y", *call.outputs[0], x.shape[0], x.shape[1]);
}

bool check_bias_gelu_backward(const keel_op_call& call, CheckError* error) {
  const keel_tensor& x = *call.inputs[0];
  return has_bias(call, error) &&
         is_matrix(call, error, "input dy", *call.inputs[2], x.shape[0], x.shape[1]) &&
         is_matrix(call, error, "output dx", *call.outputs[0], x.shape[0], x.shape[1]);
}

}  // namespace keel::ops
