// SPDX-License-Identifier: Apache-2.0
// elementwise.
#include <keel/plugin/numbers.hpp>

#include "backends/gpu/axes.h"
#include "backends/gpu/ops.h"

namespace keel::gpu {
namespace {

using simt::Function;
using simt::GroupAccess;
using simt::KernelId;
using simt::kOperands;
using simt::kOperandY;

#define KEEL_SAME_NUMBER(NAME, name) \
  static_assert(static_cast<int64_t>(Function::name) == KEEL_ELEMENTWISE_FUNCTION_##NAME);
KEEL_FOR_EACH_ELEMENTWISE_FUNCTION(KEEL_SAME_NUMBER)
#undef KEEL_SAME_NUMBER
static_assert(simt::kMaxAxes == KEEL_MAX_RANK);

// Whether the result depends on the index of the element.
bool has_index(Function function) {
  return function == Function::arange || function >= Function::uniform;
}

Function function_of(const keel_op_call& call) {
  return static_cast<Function>(kit::attributes<keel_op_elementwise_attributes>(call).function);
}

bool supports_elementwise(const keel_op_call& call) {
  for (uint32_t i = 0; i < call.input_count; ++i) {
    if (call.inputs[i] != nullptr && !element_type(call.inputs[i]->dtype)) return false;
  }
  return element_type(call.outputs[0]->dtype).has_value();
}

template <typename T>
T number(double value) {
  return static_cast<T>(value);
}
template <>
int64_t number<int64_t>(double value) {
  return kit::truncated(value);
}

// The part of a launch that follows from tensors and strides, for any type of the computation.
struct Layout {
  const keel_tensor* tensors[kOperands];
  AxisList<kOperands> axes;
  uint64_t steps[kOperands] = {};
  GroupAccess access[kOperands] = {};
  uint32_t lanes = 1;
  uint64_t tail = 0;

  explicit Layout(const keel_op_call& call)
      : tensors{call.inputs[0], call.inputs[1], call.inputs[2], call.outputs[0]} {
    const keel_tensor& y = *call.outputs[0];
    for (uint32_t axis = 0; axis < y.rank; ++axis) {
      int64_t strides[kOperands];
      for (uint32_t i = 0; i < kOperands; ++i) {
        strides[i] = tensors[i] == nullptr ? 0 : tensors[i]->strides[axis];
      }
      axes.add(y.shape[axis], strides);
    }
    if (!has_index(function_of(call))) axes.sort_by(kOperandY);
    axes.merge();
    if (axes.count() != 0) group();
  }

 private:
  // Whether y and inputs are read in accesses of kGroup elements, or the like.
  bool find_access() {
    const uint64_t extent = axes.last().extent;
    if (extent < simt::kGroup || (extent % simt::kGroup != 0 && axes.count() > 1)) return false;
    for (uint32_t i = 0; i < kOperands; ++i) {
      if (tensors[i] == nullptr || steps[i] == 0) {
        access[i] = GroupAccess::splat;
      } else if (steps[i] != 1) {
        access[i] = GroupAccess::strided;
      } else {
        const uint64_t size = kit::dtype_size(tensors[i]->dtype);
        const uint64_t bytes = std::min<uint64_t>(16, size * simt::kGroup);
        if (!axes.is_aligned(i, address_of(*tensors[i]), size, bytes)) return false;
        access[i] = GroupAccess::vector;
      }
    }
    return true;
  }

  void group() {
    for (uint32_t i = 0; i < kOperands; ++i) steps[i] = axes.last().strides[i];
    if (!find_access()) return;
    lanes = simt::kGroup;
    tail = axes.last().extent % simt::kGroup;
    axes.group_last(simt::kGroup);
  }
};

template <typename T>
keel_status run_in(Stream& stream, const keel_op_call& call, KernelId kernel) {
  Layout layout(call);
  const auto attributes = kit::attributes<keel_op_elementwise_attributes>(call);
  simt::FunctionArguments<T> arguments = {};
  for (uint32_t i = 0; i < kOperands; ++i) {
    if (layout.tensors[i] == nullptr) continue;
    arguments.tensors[i] = address_of(*layout.tensors[i]);
    arguments.types[i] = *element_type(layout.tensors[i]->dtype);
  }
  arguments.groups = layout.axes.elements();
  arguments.tail = layout.tail;
  arguments.seed = static_cast<uint64_t>(attributes.seed);
  arguments.offset = static_cast<uint64_t>(attributes.offset);
  arguments.numbers[0] = number<T>(attributes.a_number);
  arguments.numbers[1] = number<T>(attributes.b_number);
  arguments.numbers[2] = number<T>(attributes.c_number);
  arguments.alpha = number<T>(attributes.alpha);
  arguments.function = static_cast<Function>(attributes.function);
  arguments.lanes = layout.lanes;
  std::copy_n(layout.access, kOperands, arguments.access);
  std::copy_n(layout.steps, kOperands, arguments.steps);
  arguments.is_small = arguments.groups < AxisList<kOperands>::kSmall ? 1 : 0;
  arguments.axis_count = layout.axes.put(arguments.axes);
  return launch(stream, kernel, blocks_for(stream, arguments.groups, simt::kThreads), arguments);
}

// Runs a dense sum or product of one float dtype by kernels of their own; |*out_ran| is false where
// the call is another one.
keel_status run_dense(Stream& stream, const keel_op_call& call, bool* out_ran) {
  struct Kernels {
    KernelId add, mul;
  };
  static constexpr ByDtype<Kernels> kKernels = {{KernelId::add_f32, KernelId::mul_f32},
                                                {KernelId::add_bf16, KernelId::mul_bf16},
                                                {KernelId::add_f16, KernelId::mul_f16}};
  const Function function = function_of(call);
  const keel_dtype dtype = call.outputs[0]->dtype;
  *out_ran = false;
  const bool is_sum =
      function == Function::add && kit::attributes<keel_op_elementwise_attributes>(call).alpha == 1;
  if (!is_sum && function != Function::mul) return KEEL_OK;
  if (dtype != KEEL_FLOAT32 && dtype != KEEL_BFLOAT16 && dtype != KEEL_FLOAT16) return KEEL_OK;
  if (call.inputs[0] == nullptr || !is_dense(*call.inputs[0], dtype) || call.inputs[1] == nullptr ||
      !is_dense(*call.inputs[1], dtype) || !is_dense(*call.outputs[0], dtype)) {
    return KEEL_OK;
  }
  *out_ran = true;
  const Kernels& kernels = kKernels.of(dtype);
  simt::ElementwiseArguments arguments = {};
  arguments.in[0] = address_of(*call.inputs[0]);
  arguments.in[1] = address_of(*call.inputs[1]);
  arguments.out = address_of(*call.outputs[0]);
  arguments.count = static_cast<uint64_t>(kit::element_count(*call.outputs[0]));
  arguments.is_aligned = (arguments.in[0] | arguments.in[1] | arguments.out) % 16 == 0 ? 1 : 0;
  return launch(stream, is_sum ? kernels.add : kernels.mul,
                blocks_for(stream, arguments.count, simt::kThreads * simt::kGroup), arguments);
}

keel_status run_elementwise(Stream& stream, const keel_op_call& call, void*) {
  if (kit::element_count(*call.outputs[0]) == 0) return KEEL_OK;
  bool ran = false;
  const keel_status status = run_dense(stream, call, &ran);
  if (ran) return status;
  switch (kit::compute_dtype(call)) {
    case KEEL_FLOAT64:
      return run_in<double>(stream, call, KernelId::function_f64);
    case KEEL_INT64:
      return run_in<int64_t>(stream, call, KernelId::function_i64);
    default:
      return run_in<float>(stream, call, KernelId::function_f32);
  }
}

}  // namespace

const Op kElementwiseOp = {"simt.elementwise", supports_elementwise, nullptr, run_elementwise};

}  // namespace keel::gpu
