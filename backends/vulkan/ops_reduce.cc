// SPDX-License-Identifier: Apache-2.0
// reduce: one kernel for each type to compute in, in two forms; function, dtypes and axes are
// values.
#include <algorithm>

#include "backends/vulkan/families.h"

namespace keel::vulkan {

namespace {

// Numbers of reduce.comp.
static_assert(KEEL_REDUCE_FUNCTION_SUM == 0 && KEEL_REDUCE_FUNCTION_MEAN == 1 &&
              KEEL_REDUCE_FUNCTION_PROD == 2 && KEEL_REDUCE_FUNCTION_MAX == 3 &&
              KEEL_REDUCE_FUNCTION_MIN == 4 && KEEL_REDUCE_FUNCTION_ARGMAX == 5 &&
              KEEL_REDUCE_FUNCTION_ARGMIN == 6 && KEEL_REDUCE_FUNCTION_ANY == 7 &&
              KEEL_REDUCE_FUNCTION_ALL == 8 && KEEL_REDUCE_FUNCTION_SUM_OF_SQUARES == 9 &&
              KEEL_REDUCE_FUNCTION_NORM == 10 && KEEL_REDUCE_FUNCTION_ABS_SUM == 11 &&
              KEEL_REDUCE_FUNCTION_ABS_MAX == 12 && KEEL_REDUCE_FUNCTION_LOG_SUM_EXP == 13);
constexpr uint32_t kFromStates = 1u << 20;
constexpr uint32_t kToStates = 1u << 21;
constexpr uint64_t kStateBytes = 20;

struct ReduceArguments {
  uint64_t x, y;
  uint32_t call, outputs, reduced, terms;
  uint32_t steps[3 * KEEL_MAX_RANK];
};
static_assert(sizeof(ReduceArguments) == kPushConstantBytes);

// The axes of a call, and the form of its kernel.
struct ReducePlan {
  Axes<2> kept;     // strides in x and y
  Axes<1> reduced;  // strides in x
  int64_t outputs = 1;
  int64_t terms = 1;  // elements of an output
  // Whether an invocation reduces an output, else a workgroup does.
  bool by_columns = false;
};

ReducePlan plan_of(const keel_op_call& call) {
  const keel_tensor& x = *call.inputs[0];
  const keel_tensor& y = *call.outputs[0];
  ReducePlan plan;
  for (uint32_t axis = x.rank; axis-- > 0;) {
    if (y.shape[axis] == x.shape[axis]) {
      plan.kept.add(x.shape[axis], {x.strides[axis], y.strides[axis]});
      plan.outputs *= x.shape[axis];
    } else {
      plan.reduced.add(x.shape[axis], {x.strides[axis]});
      plan.terms *= x.shape[axis];
    }
  }
  // Neighbours should read neighbours of x, and a workgroup should have work for most invocations.
  constexpr int64_t kFewTerms = 16;
  const bool is_dense = plan.reduced.rank == 0 || plan.kept.rank == 0 ||
                        plan.reduced.axes[0].strides[0] <= plan.kept.axes[0].strides[0];
  plan.by_columns = plan.outputs > 1 && (plan.terms < kFewTerms || !is_dense);
  return plan;
}

int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// Parts of an output, so that the workgroups of few outputs fill the device. A part is long enough
// to be worth a second dispatch.
int64_t slices_of(const ReducePlan& plan) {
  constexpr int64_t kGroups = 512;
  constexpr int64_t kMostSlices = 1024;
  const int64_t least_terms = plan.by_columns ? 512 : 8192;
  const int64_t invocations = plan.by_columns ? 64 : 1;
  const int64_t groups = divide_up(std::max<int64_t>(plan.outputs, 1), invocations);
  return std::clamp<int64_t>(std::min(plan.terms / least_terms, kGroups / groups), 1, kMostSlices);
}

bool supports_reduce(const Device& device, const keel_op_call& call) {
  return can_compute(device, compute_type(call)) && can_address(device, call);
}

uint64_t reduce_workspace(const keel_op_call& call) {
  const ReducePlan plan = plan_of(call);
  const int64_t slices = slices_of(plan);
  return slices == 1 ? 0 : static_cast<uint64_t>(plan.outputs * slices) * kStateBytes;
}

keel_status run_reduce(Stream& stream, const keel_op_call& call, void* workspace) {
  const ReducePlan plan = plan_of(call);
  if (plan.outputs == 0) return KEEL_OK;
  ReduceArguments arguments = {};
  arguments.x = address_of(*call.inputs[0]);
  arguments.y = address_of(*call.outputs[0]);
  arguments.outputs = static_cast<uint32_t>(plan.outputs);
  arguments.reduced = static_cast<uint32_t>(plan.terms);
  arguments.terms = static_cast<uint32_t>(plan.terms);
  arguments.call =
      static_cast<uint32_t>(kit::attributes<keel_op_reduce_attributes>(call).function) |
      static_cast<uint32_t>(element_type(call.inputs[0]->dtype)) << 4 |
      static_cast<uint32_t>(element_type(call.outputs[0]->dtype)) << 8 | plan.kept.rank << 12 |
      plan.reduced.rank << 16;
  uint32_t* at = arguments.steps;
  for (uint32_t axis = 0; axis < plan.kept.rank; ++axis) {
    *at++ = plan.kept.axes[axis].extent;
    *at++ = plan.kept.axes[axis].strides[0];
    *at++ = plan.kept.axes[axis].strides[1];
  }
  for (uint32_t axis = 0; axis < plan.reduced.rank; ++axis) {
    *at++ = plan.reduced.axes[axis].extent;
    *at++ = plan.reduced.axes[axis].strides[0];
  }

  static constexpr Shader kShaders[] = {Shader::kReduceFloat, Shader::kReduceDouble,
                                        Shader::kReduceInt};
  const Compute type = compute_type(call);
  const Shader shader = kShaders[static_cast<int>(type)];
  const PhysicalDevice& physical = stream.device().physical();
  const int64_t most_groups = physical.is_cpu() ? int64_t{16} * physical.info.compute_units
                                                : int64_t{physical.max_workgroup_count};
  const auto groups = [&](bool by_columns) {
    const int64_t each = by_columns ? stream.device().pipelines().local_size(shader) : 1;
    return static_cast<uint32_t>(std::min(divide_up(plan.outputs, each), most_groups));
  };
  const bool is_log_sum =
      kit::attributes<keel_op_reduce_attributes>(call).function == KEEL_REDUCE_FUNCTION_LOG_SUM_EXP;
  const PipelineKey key = {
      shader, (plan.by_columns ? 1U : 0U) | (type == Compute::kFloat64 && is_log_sum ? 2U : 0U)};
  const int64_t slices = slices_of(plan);
  if (slices == 1) {
    return stream.dispatch(key, &arguments, sizeof(arguments), groups(plan.by_columns));
  }
  ReduceArguments first = arguments;
  first.y = reinterpret_cast<uintptr_t>(workspace);
  first.call |= kToStates;
  const keel_status status = stream.dispatch(key, &first, sizeof(first), groups(plan.by_columns),
                                             static_cast<uint32_t>(slices));
  if (status != KEEL_OK) return status;
  arguments.x = first.y;
  arguments.reduced = static_cast<uint32_t>(slices);
  arguments.call |= kFromStates;
  return stream.dispatch(key, &arguments, sizeof(arguments), groups(plan.by_columns));
}

}  // namespace

const Op kReduceOp = {"vulkan.reduce", supports_reduce, reduce_workspace, run_reduce};

}  // namespace keel::vulkan
