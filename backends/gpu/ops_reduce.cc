// SPDX-License-Identifier: Apache-2.0
// reduce.
#include "backends/gpu/axes.h"
#include "backends/gpu/ops.h"

namespace keel::gpu {
namespace {

using simt::GroupAccess;
using simt::KernelId;
using simt::Reduction;

#define KEEL_SAME_NUMBER(NAME, name) \
  static_assert(static_cast<int64_t>(Reduction::name) == KEEL_REDUCE_FUNCTION_##NAME);
KEEL_FOR_EACH_REDUCE_FUNCTION(KEEL_SAME_NUMBER)
#undef KEEL_SAME_NUMBER

// Threads that fill a chip. Fixed, so that the order of summation depends on the tensors alone.
constexpr uint64_t kFill = uint64_t{1} << 17;
// Elements that a thread takes at least before another one joins its team, and groups of elements
// before the output is cut into slices.
constexpr uint64_t kThreadElements = 8;
constexpr uint64_t kThreadGroups = 4;
// Rows of more elements are a block's, or of more than the second where there are few rows.
constexpr uint64_t kWarpElements = 2048;
constexpr uint64_t kFewWarpElements = 512;
constexpr uint32_t kTeamOfWarp = 32;

Reduction function_of(const keel_op_call& call) {
  return static_cast<Reduction>(kit::attributes<keel_op_reduce_attributes>(call).function);
}

bool supports_reduce(const keel_op_call& call) {
  return element_type(call.inputs[0]->dtype) && element_type(call.outputs[0]->dtype);
}

// How a call is launched, for any type of the computation.
struct Plan {
  AxisList<2> kept;     // strides in x and y
  AxisList<1> reduced;  // in x
  uint64_t outputs = 1;
  uint64_t count = 1;  // elements for each output
  uint64_t groups = 1;
  uint64_t tail = 0;
  uint64_t step = 0;
  uint32_t lanes = 1;
  GroupAccess access = GroupAccess::strided;
  uint32_t team = 1;
  uint64_t slice = 1;
  uint64_t slices = 1;

  explicit Plan(const keel_op_call& call) {
    const keel_tensor& x = *call.inputs[0];
    const keel_tensor& y = *call.outputs[0];
    for (uint32_t axis = 0; axis < x.rank; ++axis) {
      if (x.shape[axis] == y.shape[axis]) {
        kept.add(x.shape[axis], {x.strides[axis], y.strides[axis]});
      } else {
        reduced.add(x.shape[axis], {x.strides[axis]});
      }
    }
    kept.sort_by(0);
    kept.merge();
    const Reduction function = function_of(call);
    if (function != Reduction::argmax && function != Reduction::argmin) reduced.sort_by(0);
    reduced.merge();
    outputs = kept.elements();
    count = reduced.elements();
    groups = count;
    if (outputs == 0 || reduced.count() == 0) return;
    step = reduced.last().strides[0];
    choose_team();
    group(x);
    cut();
  }

 private:
  // A thread for each output where neighbouring outputs are closer to each other than neighbouring
  // elements, else a team of threads.
  void choose_team() {
    if (kept.count() != 0 && kept.last().strides[0] < step) return;
    if (count > kWarpElements || (count > kFewWarpElements && outputs * kTeamOfWarp < kFill / 8)) {
      team = simt::kThreads;
      return;
    }
    while (team < kTeamOfWarp && team * kThreadElements < count) team *= 2;
  }

  void group(const keel_tensor& x) {
    const uint64_t extent = reduced.last().extent;
    if (extent < simt::kGroup || (extent % simt::kGroup != 0 && reduced.count() > 1)) return;
    if (step == 0) {
      access = GroupAccess::splat;
    } else if (step == 1) {
      const uint64_t size = kit::dtype_size(x.dtype);
      const uint64_t bytes = std::min<uint64_t>(16, size * simt::kGroup);
      uint64_t kept_strides = 0;
      for (uint32_t i = 0; i < kept.count(); ++i) kept_strides |= kept[i].strides[0] * size;
      if (kept_strides % bytes == 0 && reduced.is_aligned(0, address_of(x), size, bytes)) {
        access = GroupAccess::vector;
      } else if (team != 1) {
        return;  // neighbouring threads read neighbouring elements
      }
    }
    lanes = simt::kGroup;
    tail = extent % simt::kGroup;
    reduced.group_last(simt::kGroup);
    groups = reduced.elements();
  }

  // Cuts few outputs of many elements into slices.
  void cut() {
    const uint64_t most = kFill / std::min(outputs * team, kFill);
    const uint64_t wanted = std::min(most, groups / (team * kThreadGroups));
    if (wanted < 2) {
      slice = groups;
      return;
    }
    slice = divide_up(groups, wanted);
    slices = divide_up(groups, slice);
  }
};

uint64_t state_bytes(keel_dtype computed) {
  return computed == KEEL_FLOAT32 ? sizeof(simt::ReduceState<float>)
                                  : sizeof(simt::ReduceState<double>);
}

uint64_t reduce_workspace(const keel_op_call& call) {
  const Plan plan(call);
  return plan.slices == 1 ? 0 : plan.outputs * plan.slices * state_bytes(kit::compute_dtype(call));
}

template <typename T>
keel_status run_in(Stream& stream, const keel_op_call& call, KernelId kernel, void* workspace) {
  Plan plan(call);
  if (plan.outputs == 0) return KEEL_OK;
  simt::ReduceArguments<T> arguments = {};
  arguments.x = address_of(*call.inputs[0]);
  arguments.y = address_of(*call.outputs[0]);
  arguments.states = reinterpret_cast<uintptr_t>(workspace);
  arguments.outputs = plan.outputs;
  arguments.slices = plan.slices;
  arguments.slice = plan.slice;
  arguments.groups = plan.groups;
  arguments.tail = plan.tail;
  arguments.count = plan.count;
  arguments.step = plan.step;
  arguments.x_type = *element_type(call.inputs[0]->dtype);
  arguments.y_type = *element_type(call.outputs[0]->dtype);
  arguments.function = function_of(call);
  arguments.team = plan.team;
  arguments.lanes = plan.lanes;
  arguments.access = plan.access;
  arguments.is_small = std::max(plan.outputs, plan.groups) < AxisList<1>::kSmall ? 1 : 0;
  arguments.kept_count = plan.kept.put(arguments.kept);
  arguments.reduced_count = plan.reduced.put(arguments.reduced);
  const auto run = [&] {
    return launch(
        stream, kernel,
        blocks_for(stream, arguments.outputs * arguments.slices, simt::kThreads / arguments.team),
        arguments);
  };
  const keel_status status = run();
  if (status != KEEL_OK || plan.slices == 1) return status;
  arguments.groups = plan.slices;
  arguments.slices = 1;
  arguments.joins = 1;
  arguments.team = plan.slices <= kTeamOfWarp                     ? 1
                   : plan.slices <= kTeamOfWarp * kThreadElements ? kTeamOfWarp
                                                                  : simt::kThreads;
  return run();
}

keel_status run_reduce(Stream& stream, const keel_op_call& call, void* workspace) {
  switch (kit::compute_dtype(call)) {
    case KEEL_FLOAT64:
      return run_in<double>(stream, call, KernelId::reduce_f64, workspace);
    case KEEL_INT64:
      return run_in<int64_t>(stream, call, KernelId::reduce_i64, workspace);
    default:
      return run_in<float>(stream, call, KernelId::reduce_f32, workspace);
  }
}

}  // namespace

const Op kReduceOp = {"simt.reduce", supports_reduce, reduce_workspace, run_reduce};

}  // namespace keel::gpu
