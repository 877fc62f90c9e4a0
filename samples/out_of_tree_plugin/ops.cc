// SPDX-License-Identifier: Apache-2.0
#include "ops.h"

#include <algorithm>
#include <keel/float_types.hpp>
#include <keel/plugin_kit.hpp>

namespace tinychip {

namespace kit = keel::kit;

namespace {

bool is_float(keel_dtype dtype) {
  return dtype == KEEL_FLOAT32 || dtype == KEEL_FLOAT16 || dtype == KEEL_BFLOAT16;
}

float load(const keel_tensor& tensor, int64_t index) {
  switch (tensor.dtype) {
    case KEEL_FLOAT16:
      return keel::to_float(kit::first_element<const keel::float16_t>(tensor)[index]);
    case KEEL_BFLOAT16:
      return keel::to_float(kit::first_element<const keel::bfloat16_t>(tensor)[index]);
    default:
      return kit::first_element<const float>(tensor)[index];
  }
}

void store(const keel_tensor& tensor, int64_t index, float value) {
  switch (tensor.dtype) {
    case KEEL_FLOAT16:
      kit::first_element<keel::float16_t>(tensor)[index] = keel::to_float16(value);
      break;
    case KEEL_BFLOAT16:
      kit::first_element<keel::bfloat16_t>(tensor)[index] = keel::to_bfloat16(value);
      break;
    default:
      kit::first_element<float>(tensor)[index] = value;
  }
}

}  // namespace

bool takes(const keel_op_call& call) {
  for (uint32_t i = 0; i < call.input_count; ++i) {
    if (call.inputs[i] == nullptr || !kit::is_contiguous(*call.inputs[i])) return false;
  }
  const keel_tensor& output = *call.outputs[0];
  if (!kit::is_contiguous(output)) return false;
  switch (call.op) {
    case KEEL_OP_FILL:
      return output.dtype == KEEL_FLOAT32 || output.dtype == KEEL_INT32;
    case KEEL_OP_ADD:
      return output.dtype == KEEL_FLOAT32;
    case KEEL_OP_CAST:
      return is_float(call.inputs[0]->dtype) && is_float(output.dtype);
    default:
      return false;
  }
}

void run(keel_op_id op, double fill_value, const keel_tensor* inputs, const keel_tensor& output) {
  const int64_t count = kit::element_count(output);
  if (op == KEEL_OP_FILL && output.dtype == KEEL_INT32) {  // has numbers that float32 lacks
    std::fill_n(kit::first_element<int32_t>(output), count, static_cast<int32_t>(fill_value));
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    float value = static_cast<float>(fill_value);
    if (op != KEEL_OP_FILL) value = load(inputs[0], i);
    if (op == KEEL_OP_ADD) value += load(inputs[1], i);
    store(output, i, value);
  }
}

}  // namespace tinychip
