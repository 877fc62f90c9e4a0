// SPDX-License-Identifier: Apache-2.0
// Calls of operators. Included by keel.hpp, which states the rules for all of its parts.
#ifndef KEEL_OP_HPP_
#define KEEL_OP_HPP_

#include <keel/keel.h>

#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <keel/device.hpp>
#include <keel/error.hpp>
#include <keel/stream.hpp>
#include <span>
#include <string>

namespace keel {
inline namespace v0 {

// One tensor of a call, borrowed; nullptr for an omitted optional input.
class Operand {
 public:
  Operand(const keel_tensor& tensor) : tensor_(&tensor) {}
  Operand(std::nullptr_t) {}

  const keel_tensor* get() const { return tensor_; }

 private:
  const keel_tensor* tensor_ = nullptr;
};

// A number as the caller wrote it; OpCall converts it to the kind that the operator reads.
class Attribute {
 public:
  template <std::integral Integer>
  Attribute(Integer value) : is_float_(false) {
    value_.i = static_cast<int64_t>(value);
  }
  Attribute(double value) : is_float_(true) { value_.f = value; }

  keel_attribute as_given() const { return value_; }
  keel_attribute as_float() const {
    keel_attribute value = value_;
    if (!is_float_) value.f = static_cast<double>(value_.i);
    return value;
  }
  // Throws KEEL_INVALID_ARGUMENT for a fraction, and for a magnitude of 2^63 or more.
  keel_attribute as_integer() const {
    if (!is_float_) return value_;
    if (std::trunc(value_.f) != value_.f || std::abs(value_.f) >= 0x1p63) {
      throw Error(KEEL_INVALID_ARGUMENT, "attribute " + std::to_string(value_.f) +
                                             " is given where the operator reads an integer");
    }
    keel_attribute value;
    value.i = static_cast<int64_t>(value_.f);
    return value;
  }

 private:
  keel_attribute value_;
  bool is_float_;
};

// The arguments of one operator, with its number: the structs of keel/ops.hpp.
template <typename Arguments>
concept OperatorArguments = requires(const Arguments& arguments) {
  { Arguments::kOp } -> std::convertible_to<keel_op_id>;
  arguments.inputs();
  arguments.outputs();
};

// One call of an operator of docs/operators.md, which owns its arrays of tensors and attributes:
// build a call once, run it often, allocate never. Not thread-safe.
class OpCall {
 public:
  static constexpr size_t kMaxInputs = 9;
  static constexpr size_t kMaxOutputs = 8;
  static constexpr size_t kMaxAttributes = 16;

  // An operator of keel/ops.hpp: OpCall(keel::ops::Matmul{.a = a, .b = b, .c = c}).
  template <OperatorArguments Arguments>
  explicit OpCall(const Arguments& arguments) {
    take(std::span<const Operand>(arguments.inputs()), input_tensors_, input_pointers_);
    take(std::span<const Operand>(arguments.outputs()), output_tensors_, output_pointers_);
    uint32_t attribute_count = 0;
    if constexpr (requires { arguments.attributes(); }) {
      const auto attributes = arguments.attributes();  // has the layout of the array
      static_assert(sizeof(attributes) <= sizeof(attributes_));
      std::memcpy(attributes_.data(), &attributes, sizeof(attributes));
      attribute_count = sizeof(attributes) / sizeof(keel_attribute);
    }
    point_to_arrays(Arguments::kOp, arguments.inputs().size(), arguments.outputs().size(),
                    attribute_count);
  }

  // Any operator by number, custom ones too. |attributes| holds all of them, in the order of the
  // operator's table. Custom operators get attributes as written: 1 is an integer, 1.0 a float.
  OpCall(keel_op_id op, std::initializer_list<Operand> inputs,
         std::initializer_list<Operand> outputs, std::initializer_list<Attribute> attributes = {})
      : OpCall(op, std::span(inputs.begin(), inputs.size()),
               std::span(outputs.begin(), outputs.size()),
               std::span(attributes.begin(), attributes.size())) {}
  OpCall(keel_op_id op, std::span<const Operand> inputs, std::span<const Operand> outputs,
         std::span<const Attribute> attributes) {
    if (inputs.size() > kMaxInputs || outputs.size() > kMaxOutputs ||
        attributes.size() > kMaxAttributes) {
      throw Error(KEEL_INVALID_ARGUMENT,
                  "operator call: more than 9 inputs, 8 outputs or 16 "
                  "attributes");
    }
    take(inputs, input_tensors_, input_pointers_);
    take(outputs, output_tensors_, output_pointers_);
    // Without the conversion, a float attribute written as 1 instead of 1.0 would be read as
    // 5e-324: the union has no tag.
    const uint32_t floats = keel_op_float_attributes(op);
    for (size_t i = 0; i < attributes.size(); ++i) {
      attributes_[i] = op >= KEEL_OP_CUSTOM_BASE ? attributes.data()[i].as_given()
                       : (floats >> i & 1u) != 0 ? attributes.data()[i].as_float()
                                                 : attributes.data()[i].as_integer();
    }
    point_to_arrays(op, inputs.size(), outputs.size(), attributes.size());
  }
  OpCall(const OpCall&) = delete;  // |call_| points into the object
  OpCall& operator=(const OpCall&) = delete;

  const keel_op_call& get() const { return call_; }
  // For another run on other memory; |index| as given, but not of an omitted input.
  keel_tensor& input(size_t index) { return input_tensors_[index]; }
  keel_tensor& output(size_t index) { return output_tensors_[index]; }
  keel_attribute& attribute(size_t index) { return attributes_[index]; }

  // Enqueues the call.
  void run(const Stream& stream) const { check(keel_op_run(stream.get(), &call_)); }
  // The kernel that would run the call; KEEL_UNSUPPORTED where no kernel can.
  keel_op_plan plan(Device device) const {
    keel_op_plan plan = KEEL_STRUCT_INIT(keel_op_plan, KEEL_STRUCT_OP_PLAN);
    check(keel_op_plan_get(device.get(), &call_, &plan));
    return plan;
  }
  // All candidates, one a line, best first.
  std::string explain(Device device) const {
    return api_detail::read_text([&](char* text, uint64_t* size) {
      return keel_op_explain(device.get(), &call_, text, size);
    });
  }

 private:
  void point_to_arrays(keel_op_id op, size_t inputs, size_t outputs, size_t attributes) {
    call_ = KEEL_STRUCT_INIT(keel_op_call, KEEL_STRUCT_OP_CALL);
    call_.op = op;
    call_.input_count = static_cast<uint32_t>(inputs);
    call_.output_count = static_cast<uint32_t>(outputs);
    call_.attribute_count = static_cast<uint32_t>(attributes);
    call_.inputs = input_pointers_.data();
    call_.outputs = output_pointers_.data();
    call_.attributes = attributes_.data();
  }
  template <size_t kCount>
  static void take(std::span<const Operand> operands, std::array<keel_tensor, kCount>& tensors,
                   std::array<const keel_tensor*, kCount>& pointers) {
    for (size_t i = 0; i < operands.size(); ++i) {
      const keel_tensor* given = operands.data()[i].get();
      if (given != nullptr) tensors[i] = *given;
      pointers[i] = given == nullptr ? nullptr : &tensors[i];
    }
  }

  // Uninitialised beyond the counts: 16 tensors are 2.6 KiB, and unused entries are never read.
  std::array<keel_tensor, kMaxInputs> input_tensors_;
  std::array<keel_tensor, kMaxOutputs> output_tensors_;
  std::array<const keel_tensor*, kMaxInputs> input_pointers_;
  std::array<const keel_tensor*, kMaxOutputs> output_pointers_;
  std::array<keel_attribute, kMaxAttributes> attributes_;
  keel_op_call call_;
};

// Builds a call and runs it.
inline void op(const Stream& stream, keel_op_id op, std::initializer_list<Operand> inputs,
               std::initializer_list<Operand> outputs,
               std::initializer_list<Attribute> attributes = {}) {
  OpCall(op, inputs, outputs, attributes).run(stream);
}

}  // namespace v0
}  // namespace keel

#endif  // KEEL_OP_HPP_
