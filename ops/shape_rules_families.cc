// SPDX-License-Identifier: Apache-2.0
// Shape rules: elementwise, reduce, gather, scatter.
#include <keel/plugin/numbers.hpp>
#include <keel/plugin_kit.hpp>

#include "ops/shape_parts.h"
#include "ops/shape_rules.h"

namespace keel::ops {
namespace {

bool is_bitwise(int64_t function) {
  return function == KEEL_ELEMENTWISE_FUNCTION_BITWISE_NOT ||
         (function >= KEEL_ELEMENTWISE_FUNCTION_BITWISE_AND &&
          function <= KEEL_ELEMENTWISE_FUNCTION_BITWISE_XOR);
}

// Whether |moved| has the shape of |whole| but for |axis|, along which its extent is free.
bool fits_but_for_axis(const keel_op_call& call, CheckError* error, const char* argument,
                       const keel_tensor& moved, const keel_tensor& whole, int64_t axis) {
  if (axis >= whole.rank) {
    return refuse(call, error, "attribute axis: %lld is not below the rank, %u",
                  static_cast<long long>(axis), whole.rank);
  }
  int64_t want[KEEL_MAX_RANK];
  for (uint32_t a = 0; a < whole.rank; ++a) want[a] = whole.shape[a];
  bool equal = moved.rank == whole.rank;
  if (equal) want[axis] = moved.shape[axis];
  for (uint32_t a = 0; equal && a < whole.rank; ++a) equal = moved.shape[a] == want[a];
  return equal || refuse_shape(call, error, argument, moved, {want, whole.rank});
}

}  // namespace

bool check_broadcast(const keel_op_call& call, CheckError* error) {
  const keel_tensor& y = *call.outputs[0];
  const int64_t function = kit::attributes<keel_op_elementwise_attributes>(call).function;
  static constexpr const char* kNames[] = {"input a", "input b", "input c"};
  for (uint32_t i = 0; i < call.input_count; ++i) {
    if (call.inputs[i] == nullptr) continue;
    if (!kit::same_shape(*call.inputs[i], y)) {
      return refuse_shape(call, error, kNames[i], *call.inputs[i], {y.shape, y.rank});
    }
    if (is_bitwise(function) && !kit::is_integer(call.inputs[i]->dtype)) {
      return refuse(call, error, "%s: is %s, and functions of bits take integers", kNames[i],
                    kit::dtype_name(call.inputs[i]->dtype));
    }
  }
  if (is_bitwise(function) && !kit::is_integer(y.dtype)) {
    return refuse(call, error, "output y: is %s, and functions of bits give integers",
                  kit::dtype_name(y.dtype));
  }
  return true;
}

bool check_reduce(const keel_op_call& call, CheckError* error) {
  const keel_tensor& x = *call.inputs[0];
  const keel_tensor& y = *call.outputs[0];
  if (!has_rank(call, error, "output y", y, x.rank)) return false;
  bool empty = false;  // whether an element of y is made of no element of x
  for (uint32_t axis = 0; axis < x.rank; ++axis) {
    if (y.shape[axis] == x.shape[axis]) continue;
    if (y.shape[axis] != 1) {
      return refuse(call, error, "output y: its extent along axis %u is %lld, not %lld or 1", axis,
                    static_cast<long long>(y.shape[axis]), static_cast<long long>(x.shape[axis]));
    }
    empty |= x.shape[axis] == 0;
  }
  switch (kit::attributes<keel_op_reduce_attributes>(call).function) {
    case KEEL_REDUCE_FUNCTION_ARGMAX:
    case KEEL_REDUCE_FUNCTION_ARGMIN:
      if (y.dtype != KEEL_INT64 && y.dtype != KEEL_INT32) {
        return refuse(call, error, "output y: is %s; indices are int32 or int64",
                      kit::dtype_name(y.dtype));
      }
      [[fallthrough]];
    case KEEL_REDUCE_FUNCTION_MAX:
    case KEEL_REDUCE_FUNCTION_MIN:
      if (empty && kit::element_count(y) != 0) {
        return refuse(call, error, "input x: no elements, which have no largest or smallest");
      }
      return true;
    default:
      return true;
  }
}

bool check_gather(const keel_op_call& call, CheckError* error) {
  const keel_tensor& y = *call.outputs[0];
  const int64_t axis = kit::attributes<keel_op_gather_attributes>(call).axis;
  if (!fits_but_for_axis(call, error, "input x", *call.inputs[0], y, axis)) return false;
  return kit::same_shape(*call.inputs[1], y) ||
         refuse_shape(call, error, "input index", *call.inputs[1], {y.shape, y.rank});
}

bool check_scatter(const keel_op_call& call, CheckError* error) {
  const keel_tensor& x = *call.inputs[0];
  const int64_t axis = kit::attributes<keel_op_scatter_attributes>(call).axis;
  if (!fits_but_for_axis(call, error, "input x", x, *call.outputs[0], axis)) return false;
  return kit::same_shape(*call.inputs[1], x) ||
         refuse_shape(call, error, "input index", *call.inputs[1], {x.shape, x.rank});
}

}  // namespace keel::ops
