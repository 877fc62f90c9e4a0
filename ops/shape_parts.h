// SPDX-License-Identifier: Apache-2.0
// Parts shared by the shape rules of several families: checks of a tensor's rank and shape, and
// their error texts.
#ifndef KEEL_OPS_SHAPE_PARTS_H_
#define KEEL_OPS_SHAPE_PARTS_H_

#include <cstdio>
#include <initializer_list>
#include <span>

#include "ops/schema.h"

namespace keel::ops {

// The tensor's shape as "[2,3]", for error texts.
struct ShapeText {
  explicit ShapeText(std::span<const int64_t> shape) {
    size_t length = 1;
    text[0] = '[';
    for (size_t axis = 0; axis < shape.size() && length < sizeof(text) - 24; ++axis) {
      length += static_cast<size_t>(std::snprintf(text + length, sizeof(text) - length, "%s%lld",
                                                  axis == 0 ? "" : ",",
                                                  static_cast<long long>(shape[axis])));
    }
    std::snprintf(text + length, sizeof(text) - length, "]");
  }
  char text[KEEL_MAX_RANK * 21 + 3];
};

[[gnu::cold]] inline bool refuse_shape(const keel_op_call& call, CheckError* error,
                                       const char* argument, const keel_tensor& tensor,
                                       std::span<const int64_t> want) {
  return refuse(call, error, "%s: its shape is %s, not %s", argument,
                ShapeText({tensor.shape, tensor.rank}).text, ShapeText(want).text);
}

// Whether the shape of |tensor| equals |want|; |argument|: "input bias".
inline bool has_shape(const keel_op_call& call, CheckError* error, const char* argument,
                      const keel_tensor& tensor, std::initializer_list<int64_t> want) {
  bool equal = tensor.rank == want.size();
  for (uint32_t axis = 0; equal && axis < tensor.rank; ++axis) {
    equal = tensor.shape[axis] == want.begin()[axis];
  }
  return equal || refuse_shape(call, error, argument, tensor, {want.begin(), want.size()});
}

inline bool has_rank(const keel_op_call& call, CheckError* error, const char* argument,
                     const keel_tensor& tensor, uint32_t rank) {
  return tensor.rank == rank ||
         refuse(call, error, "%s: its rank is %u, not %u", argument, tensor.rank, rank);
}

}  // namespace keel::ops

#endif  // KEEL_OPS_SHAPE_PARTS_H_
