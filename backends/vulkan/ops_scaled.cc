// SPDX-License-Identifier: Apache-2.0
// cast_scaled.
#include <keel/rows.hpp>

#include "backends/vulkan/ops.h"

namespace keel::vulkan {

namespace {

// The shader's number of a type; -1 for unsupported types.
int type_of(keel_dtype dtype) {
  switch (dtype) {
    case KEEL_FLOAT32:
      return 0;
    case KEEL_FLOAT16:
      return 1;
    case KEEL_BFLOAT16:
      return 2;
    case KEEL_FLOAT8_E4M3FN:
      return 3;
    case KEEL_FLOAT8_E5M2:
      return 4;
    default:
      return -1;
  }
}

bool supports_cast_scaled(const Device& device, const keel_op_call& call) {
  const keel_tensor& x = *call.inputs[0];
  const keel_tensor& y = *call.outputs[0];
  if (type_of(x.dtype) < 0 || type_of(y.dtype) < 0) return false;
  // One shader serves all types and requires the features of each.
  if (!device.physical().kernels.storage_8bit || !device.physical().storage_16bit) return false;
  return find_rows(x) && kit::span_bytes(x) / kit::dtype_size(x.dtype) < uint64_t{kMaxElements} &&
         is_dense(y, y.dtype);
}

keel_status run_cast_scaled(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& x = *call.inputs[0];
  const keel_tensor& y = *call.outputs[0];
  const keel_tensor& amax = *call.outputs[1];
  const float zero = 0;
  const keel_status status =
      stream.fill(kit::first_element(amax), &zero, sizeof(zero), sizeof(zero));
  if (status != KEEL_OK) return status;
  const Rows rows = *find_rows(x);
  struct {
    uint64_t x, scale, y, amax;
    uint32_t count, span, columns, gap;
  } arguments = {address_of(x),
                 address_of(*call.inputs[1]),
                 address_of(y),
                 address_of(amax),
                 0,
                 0,
                 static_cast<uint32_t>(rows.columns),
                 static_cast<uint32_t>(rows.step - rows.columns)};
  const int variant = 5 * type_of(x.dtype) + type_of(y.dtype);
  return run_elements(stream, {Shader::kCastScaled, static_cast<uint32_t>(variant)}, arguments,
                      kit::element_count(y));
}

}  // namespace

const Op kCastScaledOp = {"vulkan.cast_scaled", supports_cast_scaled, nullptr, run_cast_scaled};

}  // namespace keel::vulkan
