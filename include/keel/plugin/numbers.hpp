// SPDX-License-Identifier: Apache-2.0
// Numbers and calls of operators with dtypes as values: elementwise, reduce, gather and scatter.
#ifndef KEEL_PLUGIN_NUMBERS_HPP_
#define KEEL_PLUGIN_NUMBERS_HPP_

#include <keel/abi.h>

#include <cstdint>

namespace keel::kit {

constexpr bool is_integer(keel_dtype dtype) {
  return dtype >= KEEL_INT8 && dtype <= KEEL_UINT64;
}

// Truncates |value|; beyond int64's range the nearest end, of NaN 0. For the attributes of
// elementwise in a call that computes in int64.
constexpr int64_t truncated(double value) {
  if (value != value) return 0;
  if (value >= 0x1p63) return INT64_MAX;
  return value <= -0x1p63 ? INT64_MIN : static_cast<int64_t>(value);
}

// A call of cast as the call of elementwise that copies: the kernels of elementwise convert between
// any two dtypes, of any strides. Borrows the tensors of |cast|.
class CopyCall {
 public:
  explicit CopyCall(const keel_op_call& cast)
      : inputs_{cast.inputs[0], nullptr, nullptr}, call_(cast) {
    call_.op = KEEL_OP_ELEMENTWISE;
    call_.input_count = 3;
    call_.inputs = inputs_;
    call_.attribute_count = sizeof(attributes_) / sizeof(keel_attribute);
    call_.attributes = reinterpret_cast<const keel_attribute*>(&attributes_);
  }
  CopyCall(const CopyCall&) = delete;
  CopyCall& operator=(const CopyCall&) = delete;

  // Valid as long as this object.
  const keel_op_call& call() const { return call_; }

 private:
  const keel_tensor* const inputs_[3];
  const keel_op_elementwise_attributes attributes_ = KEEL_OP_ELEMENTWISE_ATTRIBUTES;
  keel_op_call call_;
};

}  // namespace keel::kit

#endif  // KEEL_PLUGIN_NUMBERS_HPP_
