// SPDX-License-Identifier: Apache-2.0
// gather and scatter: moves or adds elements along an axis by index, tensors of any strides.
#include <algorithm>
#include <cstring>
#include <keel/float_types.hpp>
#include <keel/plugin_kit.hpp>
#include <type_traits>

#include "backends/cpu/ops/strided_call.h"

namespace keel::cpu {
namespace {

using kernels::Box;
using kernels::Loops;

// Elements of a piece that one core processes: some 50 us.
constexpr int64_t kPiece = int64_t{1} << 15;
constexpr int64_t kRow = 1024;
// Columns of a task of scatter.
constexpr int64_t kStrip = 128;

// The operands of |loops|, in its order; the tensor that is indexed has no stride along the axis.
struct Call {
  bool add;
  int64_t indexed_extent;  // along the axis
  int64_t indexed_stride;
  Shape shape;  // of the index
  int64_t axis;
  Strided moved;  // gather's y, scatter's x
  Strided index;
  Strided indexed;  // gather's x, scatter's y
};

Call kept_call(const Stream& stream, const keel_tensor& moved, const keel_tensor& index,
               const keel_tensor& indexed, int64_t axis, bool add) {
  Call kept = {};
  kept.add = add;
  kept.axis = axis;
  kept.indexed_extent = indexed.shape[axis];
  kept.indexed_stride = indexed.strides[axis];
  kept.shape = shape_of(index);
  kept.moved = strided(stream, &moved);
  kept.index = strided(stream, &index);
  kept.indexed = strided(stream, &indexed);
  kept.indexed.strides[axis] = 0;
  return kept;
}

void append_axis(const Call& call, uint32_t axis, Loops* loops) {
  const int64_t strides[] = {call.moved.strides[axis], call.index.strides[axis],
                             call.indexed.strides[axis]};
  loops->append(call.shape.extent[axis], strides);
}

template <typename Body>
void with_index(keel_dtype dtype, const Body& body) {
  if (dtype == KEEL_INT32) return body(int32_t{});
  body(int64_t{});
}

// A row of elements: steps are in elements.
template <typename Element, typename Index>
struct Row {
  int64_t count;
  Element* moved;
  int64_t moved_step;
  const Index* index;
  int64_t index_step;
  Element* indexed;
  int64_t indexed_step;
  int64_t extent;  // of the axis
  int64_t stride;

  bool has(int64_t place) const { return place >= 0 && place < extent; }
  bool has_one_index() const { return index_step == 0 && moved_step == 1 && indexed_step == 1; }
};

// ---- gather -----------------------------------------------------------------------

template <typename Unit, typename Index>
void gather_row(const Row<Unit, Index>& row) {
  if (row.has_one_index()) {
    const int64_t place = *row.index;
    const auto size = static_cast<size_t>(row.count) * sizeof(Unit);
    if (row.has(place)) {
      std::memcpy(row.moved, row.indexed + place * row.stride, size);
    } else {
      std::memset(row.moved, 0, size);
    }
    return;
  }
  for (int64_t i = 0; i < row.count; ++i) {
    const int64_t place = row.index[i * row.index_step];
    row.moved[i * row.moved_step] =
        row.has(place) ? row.indexed[i * row.indexed_step + place * row.stride] : Unit{0};
  }
}

// Calls body(offsets) for each row of |box|, with the offsets of its first element.
template <typename Body>
void for_each_row(const Loops& loops, const Box& box, const Body& body) {
  int64_t offset[3] = {box.offset[0], box.offset[1], box.offset[2]};
  int64_t index[KEEL_MAX_RANK] = {};
  const int64_t width = loops.rank > 0 ? box.extent[0] : 1;
  for (int64_t done = 0; done < box.count; done += width) {
    body(offset);
    for (uint32_t axis = 1; axis < loops.rank; ++axis) {
      const bool goes_on = ++index[axis] < box.extent[axis];
      const int64_t steps = goes_on ? 1 : 1 - index[axis];
      for (uint32_t o = 0; o < 3; ++o) offset[o] += steps * loops.stride[o][axis];
      if (goes_on) break;
      index[axis] = 0;
    }
  }
}

template <typename Unit, typename Index>
void gather(ThreadPool& pool, const Call& call) {
  Loops loops;
  loops.operands = 3;
  for (uint32_t axis = call.shape.rank; axis-- > 0;) append_axis(call, axis, &loops);
  loops.sort();
  loops.cut(kRow);
  const bool has_axes = loops.rank > 0;
  pool.parallel_for(loops.boxes(), kPiece / kRow, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Box box = kernels::box_at(loops, i);
      Row<Unit, Index> row = {};
      row.count = has_axes ? box.extent[0] : 1;
      row.moved_step = has_axes ? loops.stride[0][0] : 0;
      row.index_step = has_axes ? loops.stride[1][0] : 0;
      row.indexed_step = has_axes ? loops.stride[2][0] : 0;
      row.extent = call.indexed_extent;
      row.stride = call.indexed_stride;
      for_each_row(loops, box, [&](const int64_t* offset) {
        row.moved = reinterpret_cast<Unit*>(call.moved.data) + offset[0];
        row.index = reinterpret_cast<const Index*>(call.index.data) + offset[1];
        row.indexed = reinterpret_cast<Unit*>(call.indexed.data) + offset[2];
        gather_row(row);
      });
    }
  });
}

template <typename Body>
void with_unit(uint32_t size, const Body& body) {
  switch (size) {
    case 1:
      return body(uint8_t{});
    case 2:
      return body(uint16_t{});
    case 4:
      return body(uint32_t{});
    default:
      return body(uint64_t{});
  }
}

OpSupport gather_query(const keel_op_call&) {
  return {"gather"};
}

void gather_run(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& y = *call.outputs[0];
  if (kit::element_count(y) == 0) return;
  const int64_t axis = kit::attributes<keel_op_gather_attributes>(call).axis;
  const Call kept = kept_call(stream, y, *call.inputs[1], *call.inputs[0], axis, /*add=*/false);
  const auto work = [kept](ThreadPool& pool) -> keel_status {
    with_unit(kit::dtype_size(kept.moved.dtype), [&](auto unit) {
      with_index(kept.index.dtype,
                 [&](auto index) { gather<decltype(unit), decltype(index)>(pool, kept); });
    });
    return KEEL_OK;
  };
  stream.enqueue(work, /*nanoseconds=*/2 * kit::element_count(y));
}

// ---- scatter ----------------------------------------------------------------------

struct Store {
  template <typename Element>
  static void put(Element x, Element* y) {
    *y = x;
  }
};

// Integers wrap; 16-bit floats are rounded after each addition, unless sum_in_float32 adds them.
struct Add {
  template <typename Element>
  static void put(Element x, Element* y) {
    if constexpr (std::is_integral_v<Element>) {
      *y = static_cast<Element>(static_cast<uint64_t>(*y) + static_cast<uint64_t>(x));
    } else {
      *y += x;
    }
  }
  static void put(float16_t x, float16_t* y) { *y = to_float16(to_float(*y) + to_float(x)); }
  static void put(bfloat16_t x, bfloat16_t* y) { *y = to_bfloat16(to_float(*y) + to_float(x)); }
};

template <class Step, typename Element, typename Index>
void scatter_row(const Row<Element, Index>& row) {
  if (row.has_one_index()) {
    const int64_t place = *row.index;
    if (!row.has(place)) return;
    Element* const to = row.indexed + place * row.stride;
    for (int64_t i = 0; i < row.count; ++i) Step::put(row.moved[i], &to[i]);
    return;
  }
  for (int64_t i = 0; i < row.count; ++i) {
    const int64_t place = row.index[i * row.index_step];
    if (!row.has(place)) continue;
    Step::put(row.moved[i * row.moved_step],
              &row.indexed[i * row.indexed_step + place * row.stride]);
  }
}

// Elements of y that a task adds to in float32: 32 KiB.
constexpr int64_t kSums = 8192;

// Adds |length| rows of |columns| 16-bit floats to the elements of y beside them, at most kSums,
// and rounds once: many duplicates rounded after each addition lose all but the first bits. |row|
// is the first row, with its columns; |moved_stride| and |index_stride| lead to the next.
template <typename Element, typename Index>
void sum_in_float32(const Row<Element, Index>& row, int64_t length, int64_t moved_stride,
                    int64_t index_stride) {
  float sums[kSums];
  const auto for_each_sum = [&](const auto& body) {
    for (int64_t place = 0; place < row.extent; ++place) {
      for (int64_t j = 0; j < row.count; ++j) {
        body(row.indexed[j * row.indexed_step + place * row.stride], sums[place * row.count + j]);
      }
    }
  };
  for_each_sum([](const Element& element, float& sum) { sum = to_float(element); });
  for (int64_t i = 0; i < length; ++i) {
    const Element* const x = row.moved + i * moved_stride;
    const Index* const index = row.index + i * index_stride;
    for (int64_t j = 0; j < row.count; ++j) {
      const int64_t place = index[j * row.index_step];
      if (row.has(place)) sums[place * row.count + j] += to_float(x[j * row.moved_step]);
    }
  }
  for_each_sum([](Element& element, const float& sum) {
    if constexpr (std::is_same_v<Element, float16_t>) {
      element = to_float16(sum);
    } else {
      element = to_bfloat16(sum);
    }
  });
}

// A task owns the elements of y beside a strip of the innermost other axis, and walks the axis of
// the index in order: no two cores touch an element, and the order of sums is fixed.
template <class Step, typename Element, typename Index>
void scatter(ThreadPool& pool, const Call& call) {
  Loops loops;
  loops.operands = 3;
  for (uint32_t axis = call.shape.rank; axis-- > 0;) {
    if (axis != call.axis) append_axis(call, axis, &loops);
  }
  loops.sort();
  loops.merge();
  for (uint32_t axis = 0; axis < loops.rank; ++axis) {
    loops.box[axis] = axis == 0 ? std::min(kStrip, loops.extent[0]) : 1;
  }
  const int64_t length = call.shape.extent[call.axis];
  const int64_t moved_stride = call.moved.strides[call.axis];
  const int64_t index_stride = call.index.strides[call.axis];
  const int64_t width = loops.rank > 0 ? loops.box[0] : 1;
  const bool goes_along = width == 1 || moved_stride < loops.stride[0][0];
  const int64_t grain = std::max<int64_t>(1, kPiece / std::max<int64_t>(1, length * width));
  pool.parallel_for(loops.boxes(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const Box box = kernels::box_at(loops, task);
      const int64_t columns = loops.rank > 0 ? box.extent[0] : 1;
      int64_t steps[3] = {};
      for (uint32_t o = 0; loops.rank > 0 && o < 3; ++o) steps[o] = loops.stride[o][0];
      Row<Element, Index> row = {};
      row.moved = reinterpret_cast<Element*>(call.moved.data) + box.offset[0];
      row.index = reinterpret_cast<const Index*>(call.index.data) + box.offset[1];
      row.indexed = reinterpret_cast<Element*>(call.indexed.data) + box.offset[2];
      row.extent = call.indexed_extent;
      row.stride = call.indexed_stride;
      if constexpr (std::is_same_v<Element, float16_t> || std::is_same_v<Element, bfloat16_t>) {
        if (call.indexed_extent * columns <= kSums) {
          row.count = columns;
          row.moved_step = steps[0];
          row.index_step = steps[1];
          row.indexed_step = steps[2];
          sum_in_float32(row, length, moved_stride, index_stride);
          continue;
        }
      }
      if (goes_along) {
        row.count = length;
        row.moved_step = moved_stride;
        row.index_step = index_stride;
        for (int64_t j = 0; j < columns; ++j) {
          scatter_row<Step>(row);
          row.moved += steps[0];
          row.index += steps[1];
          row.indexed += steps[2];
        }
      } else {
        row.count = columns;
        row.moved_step = steps[0];
        row.index_step = steps[1];
        row.indexed_step = steps[2];
        for (int64_t i = 0; i < length; ++i) {
          scatter_row<Step>(row);
          row.moved += moved_stride;
          row.index += index_stride;
        }
      }
    }
  });
}

template <typename Body>
void with_element(keel_dtype dtype, const Body& body) {
  switch (dtype) {
    case KEEL_INT8:
    case KEEL_UINT8:
      return body(uint8_t{});
    case KEEL_INT16:
      return body(uint16_t{});
    case KEEL_INT32:
      return body(uint32_t{});
    case KEEL_INT64:
      return body(uint64_t{});
    case KEEL_FLOAT16:
      return body(float16_t{});
    case KEEL_BFLOAT16:
      return body(bfloat16_t{});
    case KEEL_FLOAT64:
      return body(double{});
    default:
      return body(float{});
  }
}

OpSupport scatter_query(const keel_op_call&) {
  return {"scatter"};
}

void scatter_run(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& x = *call.inputs[0];
  if (kit::element_count(x) == 0) return;
  const auto attributes = kit::attributes<keel_op_scatter_attributes>(call);
  const Call kept =
      kept_call(stream, x, *call.inputs[1], *call.outputs[0], attributes.axis, attributes.add != 0);
  const auto work = [kept](ThreadPool& pool) -> keel_status {
    with_index(kept.index.dtype, [&](auto index) {
      using Index = decltype(index);
      if (kept.add) {
        with_element(kept.moved.dtype,
                     [&](auto element) { scatter<Add, decltype(element), Index>(pool, kept); });
      } else {
        with_unit(kit::dtype_size(kept.moved.dtype),
                  [&](auto unit) { scatter<Store, decltype(unit), Index>(pool, kept); });
      }
    });
    return KEEL_OK;
  };
  stream.enqueue(work, /*nanoseconds=*/4 * kit::element_count(x));
}

}  // namespace

const Operator kGatherOperator = {gather_query, gather_run};
const Operator kScatterOperator = {scatter_query, scatter_run};

}  // namespace keel::cpu
