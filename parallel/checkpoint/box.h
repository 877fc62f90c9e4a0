// SPDX-License-Identifier: Apache-2.0
// Boxes of index space: the parts of tensors that ranks write and read.
#ifndef KEEL_PARALLEL_CHECKPOINT_BOX_H_
#define KEEL_PARALLEL_CHECKPOINT_BOX_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace keel::parallel {
inline namespace v0 {

// The indexes from |begin| to |begin| + |size|, axis by axis. Its elements are stored row-major.
struct Box {
  std::vector<int64_t> begin;
  std::vector<int64_t> size;

  size_t rank() const { return size.size(); }
  int64_t elements() const;
  bool is_inside(std::span<const int64_t> shape) const;
  std::string text() const;  // "[0:4, 8:16]"
};

// Empty for boxes without a common element.
std::optional<Box> intersection(const Box& a, const Box& b);

// Calls |copy|(offset in |from|, offset in |to|, count), in elements, for each run of |common| that
// is contiguous in both boxes. |common|: the intersection of the two.
void for_each_run(const Box& from, const Box& to, const Box& common,
                  const std::function<void(int64_t from, int64_t to, int64_t count)>& copy);
// The elements from |begin| to |end| of a row-major tensor of |shape|, as boxes, each with the
// number of elements before it in the range: part of a row, whole rows, part of a row, on each
// axis.
std::vector<std::pair<Box, int64_t>> boxes_of_range(const std::vector<int64_t>& shape,
                                                    int64_t begin, int64_t end);
// Elements of each run.
int64_t run_length(const Box& from, const Box& to, const Box& common);

}  // namespace v0
}  // namespace keel::parallel

#endif  // KEEL_PARALLEL_CHECKPOINT_BOX_H_
