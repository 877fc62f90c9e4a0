// SPDX-License-Identifier: Apache-2.0
// For plugins: a transposition as loops over memory, for the kernels of any chip. Axes that can be
// walked as one are merged, and units are as wide as addresses and strides allow.
#ifndef KEEL_PERMUTATION_HPP_
#define KEEL_PERMUTATION_HPP_

#include <cstdint>
#include <keel/plugin_kit.hpp>

namespace keel {

struct Permutation {
  // Strides are in units of |unit| bytes: |from| in x, |to| in y.
  struct Axis {
    int64_t extent;
    int64_t from;
    int64_t to;
  };
  static constexpr uint32_t kMaxOuter = KEEL_MAX_RANK - 2;

  uint32_t unit;  // bytes
  // The innermost axis of y, with stride 1 in y.
  Axis column;
  // If |tiled|, the axis other than |column| with the smallest stride in x: planes are moved in
  // tiles. Else the axis of y next to |column|.
  Axis row;
  bool tiled;
  // The remaining axes, in the order of y.
  uint32_t outer_count;
  Axis outer[kMaxOuter];

  int64_t outer_extent() const {
    int64_t extent = 1;
    for (uint32_t i = 0; i < outer_count; ++i) extent *= outer[i].extent;
    return extent;
  }
};

// Loops of a call of transpose whose output is dense and has elements. Units have at most
// |max_unit| bytes, a power of two.
inline Permutation make_permutation(const keel_op_call& call, uint32_t max_unit) {
  using Axis = Permutation::Axis;
  // Shorter axes would make tiles that are all edge.
  constexpr int64_t kLeastOfTile = 8;
  const keel_tensor& x = *call.inputs[0];
  const keel_tensor& y = *call.outputs[0];
  const auto order =
      static_cast<uint64_t>(kit::attributes<keel_op_transpose_attributes>(call).order);

  // Innermost first.
  Axis axes[KEEL_MAX_RANK + 1];
  uint32_t count = 0;
  int64_t dense = 1;
  for (uint32_t k = 0; k < y.rank; ++k) {
    const int64_t extent = y.shape[y.rank - 1 - k];
    const int64_t from = x.strides[order >> 4 * k & 15];
    if (extent == 1) continue;
    if (count > 0 && from == axes[count - 1].extent * axes[count - 1].from) {
      axes[count - 1].extent *= extent;
    } else {
      axes[count++] = {extent, from, dense};
    }
    dense *= extent;
  }
  if (count == 0) axes[count++] = {1, 1, 1};

  Permutation result = {};
  result.unit = kit::dtype_size(y.dtype);
  const uint64_t addresses = reinterpret_cast<uintptr_t>(kit::first_element(x)) |
                             reinterpret_cast<uintptr_t>(kit::first_element(y));
  while (axes[0].from == 1 && axes[0].extent % 2 == 0 && 2 * result.unit <= max_unit &&
         addresses % (2 * result.unit) == 0) {
    bool fits = true;
    for (uint32_t i = 1; i < count; ++i) fits = fits && axes[i].from % 2 == 0;
    if (!fits) break;
    result.unit *= 2;
    axes[0].extent /= 2;
    for (uint32_t i = 1; i < count; ++i) {
      axes[i].from /= 2;
      axes[i].to /= 2;
    }
  }
  // Wider units may have turned a row of two or four elements into one unit.
  const uint32_t first = axes[0].extent == 1 && count > 1 ? 1 : 0;

  result.column = axes[first];
  uint32_t row = first + 1;
  for (uint32_t i = first + 1; i < count; ++i) {
    const bool is_nearer = !result.tiled || axes[i].from < axes[row].from;
    if (axes[i].from > 0 && axes[i].from < result.column.from && is_nearer &&
        axes[i].extent >= kLeastOfTile && result.column.extent >= kLeastOfTile) {
      row = i;
      result.tiled = true;
    }
  }
  result.row = row < count ? axes[row] : Axis{1, 0, 0};
  for (uint32_t i = count; i-- > first + 1;) {
    if (i != row) result.outer[result.outer_count++] = axes[i];
  }
  return result;
}

}  // namespace keel

#endif  // KEEL_PERMUTATION_HPP_
