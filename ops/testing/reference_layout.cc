// SPDX-License-Identifier: Apache-2.0
// References: transpose.
#include "ops/testing/reference_functions.h"
#include "ops/testing/reference_workspace.h"

namespace keel::ops {

void transpose_reference(Workspace& w) {
  const keel_tensor& y = *w.call().outputs[0];
  const auto order = static_cast<uint64_t>(w.attributes<keel_op_transpose_attributes>().order);
  // Steps in row-major x for one step along each axis of y.
  int64_t steps_of_x[KEEL_MAX_RANK];
  int64_t step = 1;
  for (uint32_t axis = y.rank; axis-- > 0;) {
    steps_of_x[axis] = step;
    step *= w.extent(0, axis);
  }
  keel_tensor walk = y;
  for (uint32_t axis = 0; axis < y.rank; ++axis) {
    walk.strides[axis] = steps_of_x[order >> 4 * (y.rank - 1 - axis) & 15];
  }
  size_t i = 0;
  kit::for_each_element(
      walk, [&](int64_t offset) { w.out(0)[i++] = w.in(0)[static_cast<size_t>(offset)]; });
}

}  // namespace keel::ops
