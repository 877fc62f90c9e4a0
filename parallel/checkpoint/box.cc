// SPDX-License-Identifier: Apache-2.0
#include "parallel/checkpoint/box.h"

#include <algorithm>

namespace keel::parallel {
inline namespace v0 {
namespace {

// Axes of a run: from the last axis forwards, as long as the axis behind is whole in both boxes.
size_t first_axis_of_run(const Box& from, const Box& to, const Box& common) {
  size_t axis = common.rank();
  while (axis > 0) {
    --axis;
    if (common.size[axis] != from.size[axis] || common.size[axis] != to.size[axis]) break;
  }
  return axis;
}

int64_t offset_of(const Box& box, const std::vector<int64_t>& index) {
  int64_t offset = 0;
  for (size_t axis = 0; axis < box.rank(); ++axis) {
    offset = offset * box.size[axis] + index[axis] - box.begin[axis];
  }
  return offset;
}

}  // namespace

int64_t Box::elements() const {
  int64_t count = 1;
  for (const int64_t axis : size) count *= axis;
  return count;
}

bool Box::is_inside(std::span<const int64_t> shape) const {
  if (begin.size() != shape.size() || size.size() != shape.size()) return false;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (begin[axis] < 0 || size[axis] < 0 || begin[axis] > shape[axis] ||
        size[axis] > shape[axis] - begin[axis]) {
      return false;
    }
  }
  return true;
}

std::string Box::text() const {
  std::string text = "[";
  for (size_t axis = 0; axis < rank(); ++axis) {
    text += (axis == 0 ? "" : ", ") + std::to_string(begin[axis]) + ":" +
            std::to_string(begin[axis] + size[axis]);
  }
  return text + "]";
}

std::optional<Box> intersection(const Box& a, const Box& b) {
  Box common;
  for (size_t axis = 0; axis < a.rank(); ++axis) {
    const int64_t begin = std::max(a.begin[axis], b.begin[axis]);
    const int64_t end = std::min(a.begin[axis] + a.size[axis], b.begin[axis] + b.size[axis]);
    if (end <= begin) return std::nullopt;
    common.begin.push_back(begin);
    common.size.push_back(end - begin);
  }
  return common;
}

namespace {

// Appends the boxes of elements |begin| to |end| of the box whose first axes are fixed at |index|.
void add_boxes(const std::vector<int64_t>& shape, std::vector<int64_t> index, int64_t begin,
               int64_t end, std::vector<std::pair<Box, int64_t>>* boxes, int64_t* done) {
  if (begin == end) return;
  const size_t axis = index.size();
  int64_t row = 1;  // elements of one index of |axis|
  for (size_t i = axis + 1; i < shape.size(); ++i) row *= shape[i];
  const auto add = [&](int64_t first, int64_t count) {
    Box box = {index, std::vector<int64_t>(axis, 1)};
    if (axis < shape.size()) {
      box.begin.push_back(first);
      box.size.push_back(count);
    }
    for (size_t i = axis + 1; i < shape.size(); ++i) {
      box.begin.push_back(0);
      box.size.push_back(shape[i]);
    }
    const int64_t elements = box.elements();
    boxes->emplace_back(std::move(box), *done);
    *done += elements;
  };
  const auto add_part = [&](int64_t at, int64_t from, int64_t to) {
    std::vector<int64_t> inner = index;
    inner.push_back(at);
    add_boxes(shape, std::move(inner), from, to, boxes, done);
  };
  if (axis == shape.size()) return add(0, 1);  // one element
  const int64_t first = begin / row;
  const int64_t last = end / row;
  if (first == last) return add_part(first, begin % row, end % row);
  const int64_t whole = begin % row == 0 ? first : first + 1;
  if (whole != first) add_part(first, begin % row, row);
  if (last > whole) add(whole, last - whole);
  add_part(last, 0, end % row);
}

}  // namespace

std::vector<std::pair<Box, int64_t>> boxes_of_range(const std::vector<int64_t>& shape,
                                                    int64_t begin, int64_t end) {
  std::vector<std::pair<Box, int64_t>> boxes;
  int64_t done = 0;
  add_boxes(shape, {}, begin, end, &boxes, &done);
  return boxes;
}

int64_t run_length(const Box& from, const Box& to, const Box& common) {
  int64_t length = 1;
  for (size_t axis = first_axis_of_run(from, to, common); axis < common.rank(); ++axis) {
    length *= common.size[axis];
  }
  return length;
}

void for_each_run(const Box& from, const Box& to, const Box& common,
                  const std::function<void(int64_t from, int64_t to, int64_t count)>& copy) {
  const size_t first = first_axis_of_run(from, to, common);
  const int64_t length = run_length(from, to, common);
  std::vector<int64_t> index = common.begin;
  while (true) {
    copy(offset_of(from, index), offset_of(to, index), length);
    size_t axis = first;
    while (axis > 0) {
      --axis;
      if (++index[axis] < common.begin[axis] + common.size[axis]) break;
      index[axis] = common.begin[axis];
      if (axis == 0) return;
    }
    if (first == 0) return;
  }
}

}  // namespace v0
}  // namespace keel::parallel
