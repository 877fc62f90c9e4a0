// SPDX-License-Identifier: Apache-2.0
// cast_scaled: products with a factor on the device, cast to 8-bit floats and back. Only some chips
// cast such floats.
#include <cmath>

#include "backends/ascend/ops.h"
#include "backends/ascend/types.h"

namespace keel::ascend {
namespace {

// The largest finite number of an 8-bit type; infinity for other types.
double largest_of(keel_dtype dtype) {
  switch (dtype) {
    case KEEL_FLOAT8_E4M3FN:
      return 448;
    case KEEL_FLOAT8_E5M2:
      return 57344;
    default:
      return HUGE_VAL;
  }
}

View cast_view(const keel_tensor& tensor) {
  return view_of(tensor).as(cast_type_of(tensor.dtype));
}

// An x without elements still has an amax of 0, which is left to the fallback.
bool supports_cast_scaled(const Functions& functions, const keel_op_call& call) {
  for (const keel_tensor* tensor : {call.inputs[0], call.outputs[0]}) {
    keel_tensor bytes = *tensor;
    bytes.dtype = KEEL_UINT8;
    if (!is_plain(bytes)) return false;
  }
  return functions.aclnnMul != nullptr && functions.aclnnMuls != nullptr &&
         functions.aclnnAmax != nullptr && functions.aclnnClamp != nullptr;
}

// x in float32, and two values made of it.
uint64_t cast_scaled_workspace(const keel_op_call& call) {
  return temporaries_like(input(call, 0), 3);
}

keel_status run_cast_scaled(OperatorCalls& calls, const keel_op_call& call,
                            Temporaries temporaries) {
  const keel_tensor& to = output(call, 0);
  const View y = cast_view(to);
  const View scale = view_of(input(call, 1));
  const double largest = largest_of(to.dtype);
  View x;
  View size;
  KEEL_TRY(widen(calls, cast_view(input(call, 0)), &temporaries, &x));
  KEEL_TRY(absolute(calls, x, &temporaries, &size));
  if (size.rank == 0) size = with_first_axis(size);
  Ints axes;
  for (uint32_t axis = 0; axis < size.rank; ++axis) axes.values[axes.size++] = axis;
  KEEL_TRY(KEEL_ACLNN(calls, Amax, size, axes, /*keepDim=*/false, view_of(output(call, 1))));
  const View product = wide_of(y, dense_like(size.data, ACL_FLOAT, x));
  KEEL_TRY(KEEL_ACLNN(calls, Mul, x, scale, product));
  // The library does not say what it casts a larger number to.
  if (std::isfinite(largest)) {
    KEEL_TRY(KEEL_ACLNN(calls, Clamp, product, Scalar{-largest}, Scalar{largest}, product));
  }
  return narrow(calls, product, y);
}

}  // namespace

bool has_float8_casts(Device& device) {
  char address = 0;  // which the library only notes
  const View wide = dense(&address, ACL_FLOAT, {1});
  for (const aclDataType type : {ACL_FLOAT8_E4M3FN, ACL_FLOAT8_E5M2}) {
    const View small = wide.as(type);
    const auto prepare = device.functions().aclnnCastGetWorkspaceSize;
    if (!OperatorCalls::can_prepare(device, "aclnnCast", prepare, wide, type, small) ||
        !OperatorCalls::can_prepare(device, "aclnnCast", prepare, small, ACL_FLOAT, wide)) {
      return false;
    }
  }
  return true;
}

const Op kCastScaled = {"aclnn.mul+cast",      KEEL_OP_COMPOSED, supports_cast_scaled,
                        cast_scaled_workspace, run_cast_scaled,  nullptr,
                        /*needs_float8=*/true};

}  // namespace keel::ascend
