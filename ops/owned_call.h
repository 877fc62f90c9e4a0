// SPDX-License-Identifier: Apache-2.0
// A deep copy of a keel_op_call.
#ifndef KEEL_OPS_OWNED_CALL_H_
#define KEEL_OPS_OWNED_CALL_H_

#include <keel/abi.h>

#include <array>

#include "ops/schema.h"

namespace keel::ops {

// For work that outlives the caller's structs: held behind a gate, or moved to another device.
// Fixed capacity for the largest schema, so a copy needs at most one allocation.
class OwnedCall {
 public:
  // Requires a |call| that passed check_call. Drops extensions, since none exists yet.
  explicit OwnedCall(const keel_op_call& call);
  OwnedCall(const OwnedCall&) = delete;
  OwnedCall& operator=(const OwnedCall&) = delete;

  const keel_op_call& call() const { return call_; }
  // NULL for an omitted optional input.
  keel_tensor* input(uint32_t index) {
    return call_.inputs[index] == nullptr ? nullptr : &inputs_[index];
  }
  keel_tensor* output(uint32_t index) { return &outputs_[index]; }

 private:
  static constexpr uint32_t kMaxAttributes = 8;

  keel_op_call call_;
  std::array<keel_tensor, kMaxInputs> inputs_;
  std::array<keel_tensor, kMaxOutputs> outputs_;
  std::array<const keel_tensor*, kMaxInputs> input_pointers_ = {};
  std::array<const keel_tensor*, kMaxOutputs> output_pointers_ = {};
  std::array<keel_attribute, kMaxAttributes> attributes_;
};

}  // namespace keel::ops

#endif  // KEEL_OPS_OWNED_CALL_H_
