// SPDX-License-Identifier: Apache-2.0
// Shape rules: transpose.
#include <keel/plugin_kit.hpp>

#include "ops/shape_parts.h"
#include "ops/shape_rules.h"

namespace keel::ops {

bool check_transpose(const keel_op_call& call, CheckError* error) {
  const keel_tensor& x = *call.inputs[0];
  const keel_tensor& y = *call.outputs[0];
  const auto order =
      static_cast<uint64_t>(kit::attributes<keel_op_transpose_attributes>(call).order);
  uint32_t named = 0;  // one bit per axis of x
  int64_t shape[KEEL_MAX_RANK] = {};
  for (uint32_t axis = 0; axis < x.rank; ++axis) {
    const uint64_t from = order >> 4 * (x.rank - 1 - axis) & 15;
    if (from < x.rank) {
      named |= 1u << from;
      shape[axis] = x.shape[from];
    }
  }
  if (named != (1u << x.rank) - 1 || order >> 4 * x.rank != 0) {
    return refuse(call, error, "attribute order: 0x%llx does not name each of x's %u axes once",
                  static_cast<unsigned long long>(order), x.rank);
  }
  bool fits = y.rank == x.rank;
  for (uint32_t axis = 0; fits && axis < y.rank; ++axis) fits = y.shape[axis] == shape[axis];
  return fits || refuse_shape(call, error, "output y", y, {shape, x.rank});
}

}  // namespace keel::ops
