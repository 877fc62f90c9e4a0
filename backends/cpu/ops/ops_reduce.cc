// SPDX-License-Identifier: Apache-2.0
// reduce: a function over any axes of a tensor of any strides. The order of a reduction depends on
// the shape and the strides alone, not on the number of cores.
#include <algorithm>
#include <cmath>
#include <keel/plugin_kit.hpp>
#include <limits>

#include "backends/cpu/ops/strided_call.h"

namespace keel::cpu {
namespace {

using kernels::Box;
using kernels::Fold;
using kernels::Loops;
using kernels::Partial;

// Elements of a piece that one core processes: some 50 us.
constexpr int64_t kPiece = int64_t{1} << 16;
// Results of a strip, whose elements are adjacent in x.
constexpr int64_t kStrip = 128;
// Along a shorter row the results beside each other are folded together instead.
constexpr int64_t kLeastOfRow = 16;
// Up to so many tasks, a reduction is cut into chunks, of at least kPiece elements, at most so
// many.
constexpr int64_t kFewTasks = 16;
constexpr int64_t kMostChunks = 64;

struct Call {
  int64_t function;
  Shape shape;       // of x
  uint32_t reduced;  // bit i: axis i of x is reduced
  Strided x;
  Strided y;
};

// The call without the addresses of its tensors, which a query has none of.
Call layout_of(const keel_op_call& call) {
  const keel_tensor& x = *call.inputs[0];
  const keel_tensor& y = *call.outputs[0];
  Call layout = {};
  layout.function = kit::attributes<keel_op_reduce_attributes>(call).function;
  layout.shape = shape_of(x);
  for (uint32_t axis = 0; axis < x.rank; ++axis) {
    if (y.shape[axis] != x.shape[axis]) layout.reduced |= 1u << axis;
    layout.x.strides[axis] = x.strides[axis];
    layout.y.strides[axis] = y.strides[axis];
  }
  return layout;
}

Call kept_call(const Stream& stream, const keel_op_call& call) {
  Call kept = layout_of(call);
  kept.x = strided(stream, call.inputs[0]);
  kept.y = strided(stream, call.outputs[0]);
  return kept;
}

// ---- functions --------------------------------------------------------------------

Fold fold_of(int64_t function) {
  switch (function) {
    case KEEL_REDUCE_FUNCTION_PROD:
      return Fold::kMultiply;
    case KEEL_REDUCE_FUNCTION_MAX:
    case KEEL_REDUCE_FUNCTION_ANY:
    case KEEL_REDUCE_FUNCTION_ABS_MAX:
      return Fold::kMax;
    case KEEL_REDUCE_FUNCTION_MIN:
    case KEEL_REDUCE_FUNCTION_ALL:
      return Fold::kMin;
    case KEEL_REDUCE_FUNCTION_ARGMAX:
      return Fold::kArgMax;
    case KEEL_REDUCE_FUNCTION_ARGMIN:
      return Fold::kArgMin;
    case KEEL_REDUCE_FUNCTION_LOG_SUM_EXP:
      return Fold::kLogSumExp;
    default:
      return Fold::kAdd;
  }
}

// The function of elementwise that each element goes through first; copy for none.
uint32_t map_of(int64_t function) {
  switch (function) {
    case KEEL_REDUCE_FUNCTION_ANY:
    case KEEL_REDUCE_FUNCTION_ALL:
      return KEEL_ELEMENTWISE_FUNCTION_NE;  // from 0
    case KEEL_REDUCE_FUNCTION_SUM_OF_SQUARES:
    case KEEL_REDUCE_FUNCTION_NORM:
      return KEEL_ELEMENTWISE_FUNCTION_MUL;  // by itself
    case KEEL_REDUCE_FUNCTION_ABS_SUM:
    case KEEL_REDUCE_FUNCTION_ABS_MAX:
      return KEEL_ELEMENTWISE_FUNCTION_ABS;
    default:
      return KEEL_ELEMENTWISE_FUNCTION_COPY;
  }
}

template <typename Number>
Partial<Number> start_of(int64_t function) {
  using Wide = typename Partial<Number>::Wide;
  using Limits = std::numeric_limits<Wide>;
  Partial<Number> state = {};
  switch (function) {
    case KEEL_REDUCE_FUNCTION_PROD:
    case KEEL_REDUCE_FUNCTION_ALL:
      state.value = 1;
      break;
    case KEEL_REDUCE_FUNCTION_MAX:
      state.value = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
      break;
    case KEEL_REDUCE_FUNCTION_MIN:
      state.value = Limits::has_infinity ? Limits::infinity() : Limits::max();
      break;
    case KEEL_REDUCE_FUNCTION_ARGMAX:
    case KEEL_REDUCE_FUNCTION_ARGMIN:
      state.index = -1;
      break;
    case KEEL_REDUCE_FUNCTION_LOG_SUM_EXP:
      state.value = static_cast<Wide>(std::numeric_limits<Number>::lowest());
      break;
    default:
      break;
  }
  return state;
}

// |function| is none of those that give an index.
template <typename Number>
Number result_of(int64_t function, const Partial<Number>& state, int64_t count) {
  if constexpr (std::is_same_v<Number, int64_t>) {
    return state.value;
  } else {
    switch (function) {
      case KEEL_REDUCE_FUNCTION_MEAN:
        return static_cast<Number>(state.value / static_cast<double>(count));
      case KEEL_REDUCE_FUNCTION_NORM:
        return static_cast<Number>(std::sqrt(state.value));
      case KEEL_REDUCE_FUNCTION_LOG_SUM_EXP:
        return static_cast<Number>(state.sum == 0 ? -std::numeric_limits<double>::infinity()
                                                  : state.value + std::log(state.sum));
      default:
        return static_cast<Number>(state.value);
    }
  }
}

// ---- loops --------------------------------------------------------------------------

// The axes of results and the reduced ones. Results are taken one at a time, each a fold along
// rows, or in strips of |width|, the innermost axis of |inner|, beside which the others are folded.
struct Plan {
  Loops outer;    // x and y: the axes of results but for that of a strip; boxes of one element
  Loops inner;    // x: the axis of a strip, if any, and the reduced axes
  int64_t count;  // elements of a result
  bool is_strip;
  int64_t strip_extent;      // results along the axis of strips
  int64_t strip_x, strip_y;  // its strides

  int64_t strips() const { return is_strip ? (strip_extent + kStrip - 1) / kStrip : 1; }
};

Plan plan_of(const Call& call) {
  Plan plan = {};
  Loops& outer = plan.outer;
  Loops& inner = plan.inner;
  outer.operands = 2;
  inner.operands = 1;
  plan.count = 1;
  for (uint32_t axis = call.shape.rank; axis-- > 0;) {
    const int64_t extent = call.shape.extent[axis];
    const int64_t strides[] = {call.x.strides[axis], call.y.strides[axis]};
    if ((call.reduced >> axis & 1) != 0) {
      inner.append(extent, strides);
      plan.count *= extent;
    } else {
      outer.append(extent, strides);
    }
  }
  outer.sort();
  outer.merge();
  // An index counts the elements in row-major order.
  const Fold fold = fold_of(call.function);
  if (fold != Fold::kArgMax && fold != Fold::kArgMin) inner.sort();
  inner.merge();
  const bool has_short_row = inner.rank == 0 || inner.extent[0] < kLeastOfRow;
  const bool has_near_results =
      outer.rank > 0 && inner.rank > 0 && outer.stride[0][0] < inner.stride[0][0];
  plan.is_strip = outer.rank > 0 && (has_near_results || has_short_row);
  if (plan.is_strip) {
    plan.strip_extent = outer.extent[0];
    plan.strip_x = outer.stride[0][0];
    plan.strip_y = outer.stride[1][0];
    Loops rest = {};
    rest.operands = 2;
    for (uint32_t axis = 1; axis < outer.rank; ++axis) {
      const int64_t strides[] = {outer.stride[0][axis], outer.stride[1][axis]};
      rest.append(outer.extent[axis], strides);
    }
    outer = rest;
  }
  for (uint32_t axis = 0; axis < outer.rank; ++axis) outer.box[axis] = 1;
  return plan;
}

// How a plan is cut: tasks, each the results of a row or a strip, and chunks of each task's
// reduction, whose states are joined at the end.
struct Cut {
  int64_t tasks;
  int64_t chunks;
  int64_t width;  // results of a task
};

Cut cut_of(const Plan& plan) {
  Cut cut = {};
  cut.tasks = plan.outer.boxes() * plan.strips();
  cut.width = plan.is_strip ? std::min(kStrip, plan.strip_extent) : 1;
  cut.chunks = 1;
  if (cut.tasks < kFewTasks) {
    cut.chunks = std::clamp<int64_t>(plan.count * cut.width / kPiece, 1, kMostChunks);
  }
  return cut;
}

// ---- folding ------------------------------------------------------------------------

template <typename Number>
class Reduction {
 public:
  Reduction(const Call& call, const Plan& plan, const Cut& cut)
      : call_(call),
        plan_(plan),
        cut_(cut),
        fold_(fold_of(call.function)),
        map_(map_of(call.function)) {}

  // Folds chunk |chunk| of task |task| into |states|, one for each of its results.
  void fold(int64_t task, int64_t chunk, Partial<Number>* states) const {
    const int64_t width = width_of(task);
    std::fill_n(states, width, start_of<Number>(call_.function));
    if (has_plain_rows()) {
      const int64_t step = plan_.inner.stride[0][0];
      const int64_t begin = plan_.count * chunk / cut_.chunks;
      const int64_t end = plan_.count * (chunk + 1) / cut_.chunks;
      const auto* const x = reinterpret_cast<const Number*>(x_of(task));
      kernels::family<Number>().fold_rows(fold_, x + begin * step, end - begin, step, width, begin,
                                          states);
      return;
    }
    Loops loops = {};
    loops.operands = 1;
    if (plan_.is_strip) loops.append(width, &plan_.strip_x);
    for (uint32_t axis = 0; axis < plan_.inner.rank; ++axis) {
      loops.append(plan_.inner.extent[axis], &plan_.inner.stride[0][axis]);
    }
    loops.cut_in_order(kBoxElements<Number>);
    const int64_t boxes = loops.boxes();
    const int64_t begin = boxes * chunk / cut_.chunks;
    const int64_t end = boxes * (chunk + 1) / cut_.chunks;
    fold_boxes(loops, x_of(task), begin, end, width, states);
  }

  // Stores the results of |task|.
  void store(int64_t task, const Partial<Number>* states) const {
    const int64_t width = width_of(task);
    const auto& family = kernels::family<Number>();
    const uint32_t size = kit::dtype_size(call_.y.dtype);
    char* const y = y_of(task);
    const auto store = family.store[call_.y.dtype];
    for (int64_t j = 0; j < width; ++j) {
      char* const to = y + j * plan_.strip_y * size;
      if (fold_ == Fold::kArgMax || fold_ == Fold::kArgMin) {
        store_index(states[j].index, to);
        continue;
      }
      const Number value = result_of(call_.function, states[j], plan_.count);
      if (store == nullptr) {
        std::memcpy(to, &value, sizeof(value));
      } else {
        store(&value, to, 1);
      }
    }
  }

  void join(const Partial<Number>& from, Partial<Number>* state) const {
    kernels::family<Number>().join(fold_, from, state);
  }
  int64_t width_of(int64_t task) const {
    if (!plan_.is_strip) return 1;
    return std::min(kStrip, plan_.strip_extent - task % plan_.strips() * kStrip);
  }

 private:
  // Whether strips are rows of Number in x, which need neither copies nor a function.
  bool has_plain_rows() const {
    return plan_.is_strip && plan_.strip_x == 1 && plan_.inner.rank == 1 &&
           map_ == KEEL_ELEMENTWISE_FUNCTION_COPY && call_.x.dtype == kernels::kDtypeOf<Number>;
  }

  const char* x_of(int64_t task) const {
    const Box outer = kernels::box_at(plan_.outer, task / plan_.strips());
    const int64_t strip = task % plan_.strips() * kStrip;
    return call_.x.data +
           (outer.offset[0] + strip * plan_.strip_x) * kit::dtype_size(call_.x.dtype);
  }
  char* y_of(int64_t task) const {
    const Box outer = kernels::box_at(plan_.outer, task / plan_.strips());
    const int64_t strip = task % plan_.strips() * kStrip;
    return call_.y.data +
           (outer.offset[1] + strip * plan_.strip_y) * kit::dtype_size(call_.y.dtype);
  }

  void store_index(int64_t index, char* to) const {
    if (call_.y.dtype == KEEL_INT32) {
      const auto narrow = static_cast<int32_t>(index);
      std::memcpy(to, &narrow, sizeof(narrow));
    } else {
      std::memcpy(to, &index, sizeof(index));
    }
  }

  void fold_boxes(const Loops& loops, const char* x, int64_t begin, int64_t end, int64_t width,
                  Partial<Number>* states) const {
    alignas(64) Number room[3][kBoxElements<Number>];
    RawBox<Number> raw;
    const auto& family = kernels::family<Number>();
    BoxReader<Number> reader(loops, 0, x, call_.x.dtype);
    kernels::Arguments<Number> map = {};
    map.function = map_;
    const bool compares = map_ == KEEL_ELEMENTWISE_FUNCTION_NE;
    if (compares) std::fill_n(room[1], kBoxElements<Number>, Number{0});
    for (int64_t i = begin; i < end; ++i) {
      const Box box = kernels::box_at(loops, i);
      const Number* numbers = reader.read(box, &raw, room[0]);
      if (map_ != KEEL_ELEMENTWISE_FUNCTION_COPY) {
        map.count = box.count;
        map.a = numbers;
        map.b = compares ? room[1] : numbers;
        map.y = room[2];
        family.apply(map);
        numbers = map.y;
      }
      const int64_t first = box.first / width;
      if (width == 1) {
        family.fold_row(fold_, numbers, box.count, first, states);
      } else {
        family.fold_rows(fold_, numbers, box.count / width, width, width, first, states);
      }
    }
  }

  const Call& call_;
  const Plan& plan_;
  const Cut& cut_;
  const Fold fold_;
  const uint32_t map_;
};

template <typename Number>
void run(ThreadPool& pool, const Call& call, void* workspace) {
  const Plan plan = plan_of(call);
  const Cut cut = cut_of(plan);
  const Reduction<Number> reduction(call, plan, cut);
  if (cut.chunks == 1) {
    const int64_t work = std::max<int64_t>(1, plan.count * cut.width);
    const int64_t grain = std::max<int64_t>(1, kPiece / work);
    pool.parallel_for(cut.tasks, grain, [&](int64_t begin, int64_t end) {
      Partial<Number> states[kStrip];
      for (int64_t task = begin; task < end; ++task) {
        reduction.fold(task, 0, states);
        reduction.store(task, states);
      }
    });
    return;
  }
  auto* const states = static_cast<Partial<Number>*>(workspace);
  pool.parallel_for(cut.tasks * cut.chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      reduction.fold(i / cut.chunks, i % cut.chunks, states + i * cut.width);
    }
  });
  for (int64_t task = 0; task < cut.tasks; ++task) {
    Partial<Number>* const all = states + task * cut.chunks * cut.width;
    for (int64_t chunk = 1; chunk < cut.chunks; ++chunk) {
      for (int64_t j = 0; j < reduction.width_of(task); ++j) {
        reduction.join(all[chunk * cut.width + j], &all[j]);
      }
    }
    reduction.store(task, all);
  }
}

template <typename Body>
void with_number(keel_dtype computed, const Body& body) {
  switch (computed) {
    case KEEL_FLOAT64:
      return body(double{});
    case KEEL_INT64:
      return body(int64_t{});
    default:
      return body(float{});
  }
}

OpSupport reduce_query(const keel_op_call& call) {
  OpSupport support = {"reduce"};
  if (kit::element_count(*call.outputs[0]) == 0) return support;
  const Cut cut = cut_of(plan_of(layout_of(call)));
  if (cut.chunks > 1) {
    support.workspace_bytes =
        static_cast<uint64_t>(cut.tasks * cut.chunks * cut.width) * sizeof(Partial<float>);
  }
  return support;
}

void reduce_run(Stream& stream, const keel_op_call& call, void* workspace) {
  if (kit::element_count(*call.outputs[0]) == 0) return;
  const Call kept = kept_call(stream, call);
  const keel_dtype computed = kit::compute_dtype(call);
  const auto work = [kept, computed, workspace](ThreadPool& pool) -> keel_status {
    with_number(computed, [&](auto number) { run<decltype(number)>(pool, kept, workspace); });
    return KEEL_OK;
  };
  stream.enqueue(work, /*nanoseconds=*/kit::element_count(*call.inputs[0]));
}

}  // namespace

const Operator kReduceOperator = {reduce_query, reduce_run};

}  // namespace keel::cpu
