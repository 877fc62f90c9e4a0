// SPDX-License-Identifier: Apache-2.0
// gather and scatter.
#include <algorithm>

#include "backends/vulkan/families.h"

namespace keel::vulkan {

namespace {

constexpr uint32_t kTensors = 3;  // x, index, y
constexpr uint32_t kStepsOfAxis = kTensors + 1;
constexpr uint32_t kStoredSteps = KEEL_MAX_RANK * kStepsOfAxis;
constexpr uint32_t kWideIndex = 1u << 4;
constexpr uint32_t kAdd = 1u << 8;

// Copies the steps of |axes| to |out|; if they are more than |room|, to |workspace|, and its
// address to |out|.
keel_status pass_steps(Stream& stream, const Axes<kTensors>& axes, void* workspace, uint32_t* out,
                       uint32_t room) {
  uint32_t steps[kStoredSteps] = {};
  for (uint32_t axis = 0; axis < axes.rank; ++axis) {
    uint32_t* const at = steps + axis * kStepsOfAxis;
    std::copy_n(axes.axes[axis].strides.begin(), kTensors, at);
    at[kTensors] = axes.axes[axis].extent;
  }
  if (axes.rank * kStepsOfAxis - 1 <= room) {
    std::copy_n(steps, room, out);
    return KEEL_OK;
  }
  const uint64_t address = reinterpret_cast<uintptr_t>(workspace);
  std::memcpy(out, &address, sizeof(address));
  return stream.copy(KEEL_COPY_HOST_TO_DEVICE, workspace, steps, sizeof(steps));
}

uint64_t steps_bytes(const Axes<kTensors>& axes, uint32_t pushed_axes) {
  return axes.rank > pushed_axes ? kStoredSteps * sizeof(uint32_t) : 0;
}

uint32_t call_of(const keel_op_call& call, const Axes<kTensors>& axes) {
  return static_cast<uint32_t>(element_type(call.inputs[0]->dtype)) |
         (call.inputs[1]->dtype == KEEL_INT64 ? kWideIndex : 0) | (axes.rank - 1) << 5;
}

// ---- gather ----------------------------------------------------------------------

struct GatherArguments {
  static constexpr uint32_t kPushedAxes = 5;

  uint64_t x, index, y;
  uint32_t call, count, span, extent, axis_stride;
  uint32_t steps[kPushedAxes * kStepsOfAxis - 1];
};
static_assert(sizeof(GatherArguments) <= kPushConstantBytes);

// Returns the axes of y; x has no stride along the axis of the index.
Axes<kTensors> gather_axes(const keel_op_call& call) {
  const keel_tensor& y = *call.outputs[0];
  const auto along = static_cast<uint32_t>(kit::attributes<keel_op_gather_attributes>(call).axis);
  Axes<kTensors> axes;
  for (uint32_t axis = y.rank; axis-- > 0;) {
    axes.add(y.shape[axis], {axis == along ? 0 : call.inputs[0]->strides[axis],
                             call.inputs[1]->strides[axis], y.strides[axis]});
  }
  axes.finish();
  return axes;
}

bool supports_gather(const Device& device, const keel_op_call& call) {
  return can_address(device, call);
}

uint64_t gather_workspace(const keel_op_call& call) {
  return steps_bytes(gather_axes(call), GatherArguments::kPushedAxes);
}

keel_status run_gather(Stream& stream, const keel_op_call& call, void* workspace) {
  const keel_tensor& x = *call.inputs[0];
  const int64_t count = kit::element_count(*call.outputs[0]);
  if (count == 0) return KEEL_OK;
  const int64_t axis = kit::attributes<keel_op_gather_attributes>(call).axis;
  const Axes<kTensors> axes = gather_axes(call);
  GatherArguments arguments = {};
  arguments.x = address_of(x);
  arguments.index = address_of(*call.inputs[1]);
  arguments.y = address_of(*call.outputs[0]);
  arguments.call = call_of(call, axes);
  arguments.extent = static_cast<uint32_t>(x.shape[axis]);
  arguments.axis_stride = static_cast<uint32_t>(x.strides[axis]);
  const keel_status status =
      pass_steps(stream, axes, workspace, arguments.steps, std::size(arguments.steps));
  if (status != KEEL_OK) return status;
  return run_elements(stream, {Shader::kGather}, arguments, count);
}

// ---- scatter ---------------------------------------------------------------------

struct ScatterArguments {
  static constexpr uint32_t kPushedAxes = 4;

  uint64_t x, index, y;
  uint32_t call, count, span, lines, terms, extent, range;
  uint32_t axis_strides[kTensors];
  uint32_t steps[kPushedAxes * kStepsOfAxis - 1];
};
static_assert(sizeof(ScatterArguments) <= kPushConstantBytes);

// Returns the axes of x, without the axis of the index.
Axes<kTensors> scatter_axes(const keel_op_call& call, const keel_tensor& y) {
  const keel_tensor& x = *call.inputs[0];
  const auto along = static_cast<uint32_t>(kit::attributes<keel_op_scatter_attributes>(call).axis);
  Axes<kTensors> axes;
  for (uint32_t axis = x.rank; axis-- > 0;) {
    if (axis == along) continue;
    axes.add(x.shape[axis], {x.strides[axis], call.inputs[1]->strides[axis], y.strides[axis]});
  }
  axes.finish();
  return axes;
}

bool adds(const keel_op_call& call) {
  return kit::attributes<keel_op_scatter_attributes>(call).add != 0;
}

bool adds_doubles(const keel_op_call& call) {
  return adds(call) && call.outputs[0]->dtype == KEEL_FLOAT64;
}

// Sums of 16-bit floats are made in a float32 copy of y: rounded after each term, a sum of a
// hundred terms has an error of a hundredth.
bool adds_in_copy(const keel_op_call& call) {
  const keel_dtype dtype = call.outputs[0]->dtype;
  return adds(call) && (dtype == KEEL_FLOAT16 || dtype == KEEL_BFLOAT16);
}

bool supports_scatter(const Device& device, const keel_op_call& call) {
  return can_address(device, call) &&
         (!adds_doubles(call) || can_compute(device, Compute::kFloat64));
}

// The workspace: steps of scatter, steps of the copies, the copy.
constexpr uint64_t kCopySteps = 256;
constexpr uint64_t kCopyBegin = 512;

uint64_t scatter_workspace(const keel_op_call& call) {
  const keel_tensor& y = *call.outputs[0];
  if (adds_in_copy(call)) {
    return kCopyBegin + static_cast<uint64_t>(kit::element_count(y)) * sizeof(float);
  }
  return steps_bytes(scatter_axes(call, y), ScatterArguments::kPushedAxes);
}

keel_status scatter_into(Stream& stream, const keel_op_call& call, const keel_tensor& y,
                         void* workspace) {
  const keel_tensor& x = *call.inputs[0];
  const int64_t axis = kit::attributes<keel_op_scatter_attributes>(call).axis;
  const Axes<kTensors> axes = scatter_axes(call, y);
  const int64_t lines = kit::element_count(x) / x.shape[axis];
  // Owners of a line repeat the reading of its indices: as many as fill the device, no more.
  const int64_t wanted = stream.device().physical().is_cpu() ? 64 : 8192;
  const int64_t owners = std::clamp<int64_t>(std::min(wanted / lines, y.shape[axis]), 1, wanted);
  const int64_t range = (y.shape[axis] + owners - 1) / owners;
  ScatterArguments arguments = {};
  arguments.x = address_of(x);
  arguments.index = address_of(*call.inputs[1]);
  arguments.y = address_of(y);
  arguments.call = call_of(call, axes) | (adds(call) ? kAdd : 0) |
                   static_cast<uint32_t>(element_type(y.dtype)) << 9;
  arguments.lines = static_cast<uint32_t>(lines);
  arguments.terms = static_cast<uint32_t>(x.shape[axis]);
  arguments.extent = static_cast<uint32_t>(y.shape[axis]);
  arguments.range = static_cast<uint32_t>(range);
  arguments.axis_strides[0] = static_cast<uint32_t>(x.strides[axis]);
  arguments.axis_strides[1] = static_cast<uint32_t>(call.inputs[1]->strides[axis]);
  arguments.axis_strides[2] = static_cast<uint32_t>(y.strides[axis]);
  const keel_status status =
      pass_steps(stream, axes, workspace, arguments.steps, std::size(arguments.steps));
  if (status != KEEL_OK) return status;
  const Shader shader = adds_doubles(call) ? Shader::kScatterDouble : Shader::kScatter;
  // Owners whose ranges begin within y.
  return run_elements(stream, {shader}, arguments, lines * ((y.shape[axis] + range - 1) / range));
}

keel_status convert_strided(Stream& stream, const keel_tensor& from, const keel_tensor& to,
                            void* workspace) {
  const keel_op_elementwise_attributes attributes = KEEL_OP_ELEMENTWISE_ATTRIBUTES;
  keel_attribute values[sizeof(attributes) / sizeof(keel_attribute)];
  std::memcpy(values, &attributes, sizeof(attributes));
  const keel_tensor* inputs[] = {&from, nullptr, nullptr};
  const keel_tensor* outputs[] = {&to};
  keel_op_call call = {};
  call.header = kit::header<keel_op_call>(KEEL_STRUCT_OP_CALL);
  call.op = KEEL_OP_ELEMENTWISE;
  call.input_count = std::size(inputs);
  call.output_count = 1;
  call.attribute_count = std::size(values);
  call.inputs = inputs;
  call.outputs = outputs;
  call.attributes = values;
  return kElementwiseOp.run(stream, call, workspace);
}

keel_status run_scatter(Stream& stream, const keel_op_call& call, void* workspace) {
  const keel_tensor& y = *call.outputs[0];
  if (kit::element_count(*call.inputs[0]) == 0 || kit::element_count(y) == 0) return KEEL_OK;
  if (!adds_in_copy(call)) return scatter_into(stream, call, y, workspace);
  char* const room = static_cast<char*>(workspace);
  keel_tensor copy = y;
  copy.dtype = KEEL_FLOAT32;
  copy.data = room + kCopyBegin;
  copy.byte_offset = 0;
  int64_t stride = 1;
  for (uint32_t axis = y.rank; axis-- > 0;) {
    copy.strides[axis] = stride;
    stride *= y.shape[axis];
  }
  keel_status status = convert_strided(stream, y, copy, room + kCopySteps);
  if (status == KEEL_OK) status = scatter_into(stream, call, copy, workspace);
  if (status == KEEL_OK) status = convert_strided(stream, copy, y, room + kCopySteps);
  return status;
}

}  // namespace

const Op kGatherOp = {"vulkan.gather", supports_gather, gather_workspace, run_gather};
const Op kScatterOp = {"vulkan.scatter", supports_scatter, scatter_workspace, run_scatter};

}  // namespace keel::vulkan
