// SPDX-License-Identifier: Apache-2.0
// gather, scatter.
#include "backends/gpu/axes.h"
#include "backends/gpu/ops.h"

namespace keel::gpu {
namespace {

using simt::KernelId;

// The tensors of an axis' strides.
enum : uint32_t { kY, kIndex, kX, kTensors };
using Axes = AxisList<kTensors>;

// Threads among which the lines of a scatter are divided, if there are fewer lines. Each of them
// reads all indices of its line, so more threads of long lines would read more than they save.
constexpr uint64_t kScatterThreads = uint64_t{1} << 14;

// Makes units of up to 16 bytes of elements that move together: neighbours on the last axis, which
// has one index. |selected|: the stride along the selecting axis. Returns the bytes of a unit.
uint32_t widen(const keel_tensor& x, const keel_tensor& y, Axes* axes, uint64_t* selected) {
  uint32_t unit = kit::dtype_size(x.dtype);
  if (axes->count() == 0) return unit;
  const simt::Axis<kTensors>& last = axes->last();
  if (last.strides[kY] != 1 || last.strides[kX] != 1 || last.strides[kIndex] != 0) return unit;
  uint64_t all = last.extent | *selected;
  for (uint32_t i = 0; i + 1 < axes->count(); ++i) {
    all |= (*axes)[i].strides[kY] | (*axes)[i].strides[kX];
  }
  const uint64_t addresses = address_of(x) | address_of(y);
  while (unit < 16 && all % 2 == 0 && addresses % (uint64_t{2} * unit) == 0) {
    unit *= 2;
    all /= 2;
    *selected /= 2;
    axes->last().extent /= 2;
    for (uint32_t i = 0; i + 1 < axes->count(); ++i) {
      (*axes)[i].strides[kY] /= 2;
      (*axes)[i].strides[kX] /= 2;
    }
  }
  return unit;
}

bool supports_moves(const keel_op_call& call) {
  return element_type(call.inputs[0]->dtype).has_value();
}

// The axes beside |axis|, and with |whole| that one too, along which x stays where it is.
Axes axes_of(const keel_op_call& call, int64_t axis, bool whole) {
  const keel_tensor& x = *call.inputs[0];
  const keel_tensor& index = *call.inputs[1];
  const keel_tensor& y = *call.outputs[0];
  Axes axes;
  for (uint32_t i = 0; i < y.rank; ++i) {
    if (i != axis) {
      axes.add(y.shape[i], {y.strides[i], index.strides[i], x.strides[i]});
    } else if (whole) {
      axes.add(y.shape[i], {y.strides[i], index.strides[i], 0});
    }
  }
  axes.sort_by(kY);
  axes.merge();
  return axes;
}

keel_status run_gather(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& x = *call.inputs[0];
  const keel_tensor& y = *call.outputs[0];
  if (kit::element_count(y) == 0) return KEEL_OK;
  const int64_t axis = kit::attributes<keel_op_gather_attributes>(call).axis;
  Axes axes = axes_of(call, axis, /*whole=*/true);
  simt::GatherArguments arguments = {};
  arguments.x = address_of(x);
  arguments.index = address_of(*call.inputs[1]);
  arguments.y = address_of(y);
  arguments.selected = static_cast<uint64_t>(x.strides[axis]);
  arguments.selected_extent = static_cast<uint64_t>(x.shape[axis]);
  arguments.unit = widen(x, y, &axes, &arguments.selected);
  arguments.index_type = *element_type(call.inputs[1]->dtype);
  arguments.count = axes.elements();
  arguments.is_small = arguments.count < Axes::kSmall ? 1 : 0;
  arguments.axis_count = axes.put(arguments.axes);
  return launch(stream, KernelId::gather, blocks_for(stream, arguments.count, simt::kThreads),
                arguments);
}

keel_status run_scatter(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& x = *call.inputs[0];
  const keel_tensor& index = *call.inputs[1];
  const keel_tensor& y = *call.outputs[0];
  if (kit::element_count(x) == 0 || kit::element_count(y) == 0) return KEEL_OK;
  const auto attributes = kit::attributes<keel_op_scatter_attributes>(call);
  const int64_t axis = attributes.axis;
  const bool adds = attributes.add != 0;
  Axes axes = axes_of(call, axis, /*whole=*/false);
  simt::ScatterArguments arguments = {};
  arguments.x = address_of(x);
  arguments.index = address_of(index);
  arguments.y = address_of(y);
  arguments.length = static_cast<uint64_t>(x.shape[axis]);
  // Both strides along the selecting axis, of which a unit has to divide either.
  uint64_t strides[2] = {static_cast<uint64_t>(y.strides[axis]),
                         static_cast<uint64_t>(x.strides[axis])};
  arguments.unit = kit::dtype_size(x.dtype);
  if (!adds) {
    const uint32_t element = arguments.unit;
    uint64_t both = strides[0] | strides[1];
    arguments.unit = widen(x, y, &axes, &both);
    for (uint64_t& stride : strides) stride /= arguments.unit / element;
  }
  arguments.selected = strides[0];
  arguments.x_step = strides[1];
  arguments.selected_extent = static_cast<uint64_t>(y.shape[axis]);
  arguments.index_step = static_cast<uint64_t>(index.strides[axis]);
  arguments.type = *element_type(x.dtype);
  arguments.index_type = *element_type(index.dtype);
  arguments.lines = axes.elements();
  const uint64_t ranges = std::clamp<uint64_t>(
      kScatterThreads / arguments.lines, 1, std::min(arguments.selected_extent, arguments.length));
  arguments.range = divide_up(arguments.selected_extent, ranges);
  arguments.ranges = divide_up(arguments.selected_extent, arguments.range);
  arguments.is_small = arguments.lines < Axes::kSmall ? 1 : 0;
  arguments.axis_count = axes.put(arguments.axes);
  const KernelId add_kernel =
      x.dtype == KEEL_FLOAT64 ? KernelId::scatter_add_f64 : KernelId::scatter_add;
  return launch(stream, adds ? add_kernel : KernelId::scatter,
                blocks_for(stream, arguments.lines * arguments.ranges, simt::kThreads), arguments);
}

}  // namespace

const Op kGatherOp = {"simt.gather", supports_moves, nullptr, run_gather};
const Op kScatterOp = {"simt.scatter", supports_moves, nullptr, run_scatter};

}  // namespace keel::gpu
