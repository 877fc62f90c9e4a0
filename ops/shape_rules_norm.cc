// SPDX-License-Identifier: Apache-2.0
// Shape rules of normalisations and softmax, whose rows lie along the last axis.
#include <algorithm>
#include <keel/plugin_kit.hpp>

#include "ops/shape_rules.h"

namespace keel::ops {
namespace {

bool is_shaped_as(const keel_op_call& call, CheckError* error, const char* argument,
                  const keel_tensor& tensor, const char* first_name, const keel_tensor& first) {
  return kit::same_shape(tensor, first) ||
         refuse(call, error, "%s: its shape is not that of %s", argument, first_name);
}

// gamma, beta and their gradients have one element per column.
bool is_a_row(const keel_op_call& call, CheckError* error, const char* argument,
              const keel_tensor& tensor, int64_t columns) {
  return (tensor.rank == 1 && tensor.shape[0] == columns) ||
         refuse(call, error, "%s: its shape is not [%lld]", argument,
                static_cast<long long>(columns));
}

// Statistics have one element per row.
bool is_a_column(const keel_op_call& call, CheckError* error, const char* argument,
                 const keel_tensor& tensor, const keel_tensor& rows) {
  return (tensor.rank + 1 == rows.rank &&
          std::equal(tensor.shape, tensor.shape + tensor.rank, rows.shape)) ||
         refuse(call, error, "%s: its shape is not that of the rows, all axes but the last",
                argument);
}

bool has_rows(const keel_op_call& call, CheckError* error, const char* argument,
              const keel_tensor& tensor) {
  if (tensor.rank == 0) return refuse(call, error, "%s: its rank is 0", argument);
  if (tensor.shape[tensor.rank - 1] != 0) return true;
  return std::count(tensor.shape, tensor.shape + tensor.rank, 0) > 1 ||
         refuse(call, error, "%s: its rows are empty, and have no mean", argument);
}

int64_t last_extent(const keel_tensor& tensor) {
  return tensor.shape[tensor.rank - 1];
}

}  // namespace

bool check_layer_norm(const keel_op_call& call, CheckError* error) {
  const keel_tensor& x = *call.inputs[0];
  if (!has_rows(call, error, "input x", x)) return false;
  const int64_t columns = last_extent(x);
  return is_a_row(call, error, "input gamma", *call.inputs[1], columns) &&
         (call.inputs[2] == nullptr ||
          is_a_row(call, error, "input beta", *call.inputs[2], columns)) &&
         is_shaped_as(call, error, "output y", *call.outputs[0], "x", x) &&
         is_a_column(call, error, "output mean", *call.outputs[1], x) &&
         is_a_column(call, error, "output rstd", *call.outputs[2], x);
}

bool check_layer_norm_backward(const keel_op_call& call, CheckError* error) {
  const keel_tensor& dy = *call.inputs[0];
  if (!has_rows(call, error, "input dy", dy)) return false;
  const int64_t columns = last_extent(dy);
  return is_shaped_as(call, error, "input x", *call.inputs[1], "dy", dy) &&
         is_a_row(call, error, "input gamma", *call.inputs[2], columns) &&
         is_a_column(call, error, "input mean", *call.inputs[3], dy) &&
         is_a_column(call, error, "input rstd", *call.inputs[4], dy) &&
         is_shaped_as(call, error, "output dx", *call.outputs[0], "dy", dy) &&
         is_a_row(call, error, "output dgamma", *call.outputs[1], columns) &&
         is_a_row(call, error, "output dbeta", *call.outputs[2], columns);
}

bool check_rms_norm(const keel_op_call& call, CheckError* error) {
  const keel_tensor& x = *call.inputs[0];
  return has_rows(call, error, "input x", x) &&
         is_a_row(call, error, "input gamma", *call.inputs[1], last_extent(x)) &&
         is_shaped_as(call, error, "output y", *call.outputs[0], "x", x) &&
         is_a_column(call, error, "output rstd", *call.outputs[1], x);
}

bool check_rms_norm_backward(const keel_op_call& call, CheckError* error) {
  const keel_tensor& dy = *call.inputs[0];
  return has_rows(call, error, "input dy", dy) &&
         is_shaped_as(call, error, "input x", *call.inputs[1], "dy", dy) &&
         is_a_row(call, error, "input gamma", *call.inputs[2], last_extent(dy)) &&
         is_a_column(call, error, "input rstd", *call.inputs[3], dy) &&
         is_shaped_as(call, error, "output dx", *call.outputs[0], "dy", dy) &&
         is_a_row(call, error, "output dgamma", *call.outputs[1], last_extent(dy));
}

bool check_softmax(const keel_op_call& call, CheckError* error) {
  const keel_tensor& x = *call.inputs[0];
  if (x.rank < 2) return refuse(call, error, "input x: its rank is %u, not 2 or more", x.rank);
  if (call.inputs[1] != nullptr) {
    const keel_tensor& mask = *call.inputs[1];
    const bool is_of_each_matrix =
        mask.rank == 2 && std::equal(mask.shape, mask.shape + 2, x.shape + x.rank - 2);
    if (!is_of_each_matrix && !kit::same_shape(mask, x)) {
      return refuse(call, error, "input mask: its shape is neither [%lld,%lld] nor that of x",
                    static_cast<long long>(x.shape[x.rank - 2]),
                    static_cast<long long>(x.shape[x.rank - 1]));
    }
  }
  return is_shaped_as(call, error, "output y", *call.outputs[0], "x", x);
}

bool check_softmax_backward(const keel_op_call& call, CheckError* error) {
  const keel_tensor& y = *call.inputs[0];
  if (y.rank == 0) return refuse(call, error, "input y: its rank is 0");
  return is_shaped_as(call, error, "input dy", *call.inputs[1], "y", y) &&
         is_shaped_as(call, error, "output dx", *call.outputs[0], "y", y);
}

}  // namespace keel::ops
