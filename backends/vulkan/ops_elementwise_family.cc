// SPDX-License-Identifier: Apache-2.0
// elementwise: one kernel for each type to compute in; function, dtypes and axes are values.
#include <algorithm>

#include "backends/vulkan/families.h"

namespace keel::vulkan {

namespace {

// The shader's names of the functions.
namespace shader {
using uint = uint32_t;
#include "backends/vulkan/shaders/elementwise_functions.glsl"
}  // namespace shader

constexpr uint32_t kOperands = 4;  // a, b, c, y
constexpr uint32_t kPushedAxes = 4;
constexpr uint32_t kStepsOfAxis = kOperands + 1;

struct ElementwiseArguments {
  uint64_t operands[kOperands];
  uint64_t alpha;
  uint32_t call, count, span;
  uint32_t steps[kPushedAxes * kStepsOfAxis - 1];  // the last axis needs no extent
};
static_assert(sizeof(ElementwiseArguments) == kPushConstantBytes);

bool is_random(int64_t function) {
  return function >= shader::kUniform;
}

// Functions of float64 that elementwise.comp computes in a pipeline of their own alone.
bool is_long(int64_t function) {
  return (function >= shader::kExp && function <= shader::kSigmoid) ||
         (function >= shader::kSilu && function <= shader::kGelu) || function == shader::kPow ||
         function == shader::kAtan2 || function == shader::kSiluBackward ||
         function == shader::kGeluBackward || function == shader::kNormal;
}

Axes<kOperands> axes_of(const keel_op_call& call) {
  const keel_tensor& y = *call.outputs[0];
  Axes<kOperands> axes;
  for (uint32_t axis = y.rank; axis-- > 0;) {
    std::array<int64_t, kOperands> strides = {};
    for (uint32_t i = 0; i < call.input_count; ++i) {
      if (call.inputs[i] != nullptr) strides[i] = call.inputs[i]->strides[axis];
    }
    strides[kOperands - 1] = y.strides[axis];
    axes.add(y.shape[axis], strides);
  }
  axes.finish();
  return axes;
}

bool supports_elementwise(const Device& device, const keel_op_call& call) {
  return can_compute(device, compute_type(call)) && can_address(device, call);
}

// Steps of more axes than a dispatch has room for.
constexpr uint32_t kStoredSteps = KEEL_MAX_RANK * kStepsOfAxis;

uint64_t elementwise_workspace(const keel_op_call& call) {
  return axes_of(call).rank > kPushedAxes ? kStoredSteps * sizeof(uint32_t) : 0;
}

// Large calls are worth a pipeline that computes their function alone: a software driver runs the
// code of every function for each element, and a GPU has more registers for each thread.
uint32_t variant_of(int64_t function, Compute type, int64_t count) {
  constexpr int64_t kManyElements = int64_t{1} << 17;
  static_assert(shader::kBernoulli + 1 < Pipelines::kVariants);
  const bool is_alone = count >= kManyElements || (type == Compute::kFloat64 && is_long(function));
  return is_alone ? static_cast<uint32_t>(function + 1) : 0;
}

keel_status run_elementwise(Stream& stream, const keel_op_call& call, void* workspace) {
  const keel_tensor& y = *call.outputs[0];
  const int64_t count = kit::element_count(y);
  if (count == 0) return KEEL_OK;
  const auto attributes = kit::attributes<keel_op_elementwise_attributes>(call);
  const Compute type = compute_type(call);
  const double numbers[] = {attributes.a_number, attributes.b_number, attributes.c_number};

  ElementwiseArguments arguments = {};
  arguments.call = static_cast<uint32_t>(attributes.function);
  const auto set_operand = [&](uint32_t i, const keel_tensor& tensor) {
    arguments.operands[i] = address_of(tensor);
    arguments.call |= static_cast<uint32_t>(element_type(tensor.dtype)) << (13 + 4 * i);
  };
  for (uint32_t i = 0; i < kOperands - 1; ++i) {
    if (i < call.input_count && call.inputs[i] != nullptr) {
      set_operand(i, *call.inputs[i]);
      arguments.call |= 1u << (7 + i);
    } else {
      arguments.operands[i] = number_bits(numbers[i], type);
    }
  }
  set_operand(kOperands - 1, y);
  arguments.alpha = number_bits(attributes.alpha, type);
  if (is_random(attributes.function)) {
    arguments.alpha = static_cast<uint64_t>(attributes.seed);
    arguments.operands[2] = static_cast<uint64_t>(attributes.offset);
    arguments.call &= ~(1u << 9);  // c, which no random function has
  }

  const Axes<kOperands> axes = axes_of(call);
  arguments.call |= (axes.rank - 1) << 10;
  uint32_t steps[kStoredSteps] = {};
  for (uint32_t axis = 0; axis < axes.rank; ++axis) {
    uint32_t* const at = steps + axis * kStepsOfAxis;
    std::copy_n(axes.axes[axis].strides.begin(), kOperands, at);
    at[kOperands] = axes.axes[axis].extent;
  }
  if (axes.rank <= kPushedAxes) {
    std::copy_n(steps, std::size(arguments.steps), arguments.steps);
  } else {
    const keel_status status =
        stream.copy(KEEL_COPY_HOST_TO_DEVICE, workspace, steps, sizeof(steps));
    if (status != KEEL_OK) return status;
    const uint64_t address = reinterpret_cast<uintptr_t>(workspace);
    std::memcpy(arguments.steps, &address, sizeof(address));
  }
  static constexpr Shader kShaders[] = {Shader::kElementwiseFloat, Shader::kElementwiseDouble,
                                        Shader::kElementwiseInt};
  return run_elements(
      stream, {kShaders[static_cast<int>(type)], variant_of(attributes.function, type, count)},
      arguments, count);
}

}  // namespace

const Op kElementwiseOp = {"vulkan.elementwise", supports_elementwise, elementwise_workspace,
                           run_elementwise};

}  // namespace keel::vulkan
