// SPDX-License-Identifier: Apache-2.0
#include "ops/owned_call.h"

#include <algorithm>

namespace keel::ops {

OwnedCall::OwnedCall(const keel_op_call& call) : call_(call) {
  call_.header.size = sizeof(call_);
  call_.header.next = nullptr;
  for (uint32_t i = 0; i < call.input_count; ++i) {
    if (call.inputs[i] == nullptr) continue;
    inputs_[i] = *call.inputs[i];
    input_pointers_[i] = &inputs_[i];
  }
  for (uint32_t o = 0; o < call.output_count; ++o) {
    outputs_[o] = *call.outputs[o];
    output_pointers_[o] = &outputs_[o];
  }
  std::copy_n(call.attributes, call.attribute_count, attributes_.begin());
  call_.inputs = input_pointers_.data();
  call_.outputs = output_pointers_.data();
  call_.attributes = attributes_.data();
}

}  // namespace keel::ops
