// SPDX-License-Identifier: Apache-2.0
// For plugins: a tensor as rows of adjacent elements at a constant distance, like a slice of a
// matrix, for kernels that walk the elements in order.
#ifndef KEEL_ROWS_HPP_
#define KEEL_ROWS_HPP_

#include <algorithm>
#include <cstdint>
#include <keel/plugin_kit.hpp>
#include <optional>

namespace keel {

struct Rows {
  int64_t columns;  // elements of a row; at least 1
  int64_t step;     // from the beginning of a row to that of the next, in elements

  // Whether all elements are adjacent, as in a single row.
  bool are_dense() const { return step == columns; }
};

// nullopt for a tensor with any other layout.
inline std::optional<Rows> find_rows(const keel_tensor& tensor) {
  if (kit::is_contiguous(tensor)) {
    const int64_t count = std::max<int64_t>(1, kit::element_count(tensor));
    return Rows{count, count};
  }
  // Merges axes that can be walked as one, innermost first: adjacent elements to columns, then the
  // outer axes to rows.
  int64_t columns = 1;
  uint32_t axis = tensor.rank;
  for (; axis > 0; --axis) {
    if (tensor.shape[axis - 1] == 1) continue;
    if (tensor.strides[axis - 1] != columns) break;
    columns *= tensor.shape[axis - 1];
  }
  const int64_t step = tensor.strides[axis - 1];
  int64_t rows = 1;
  for (; axis > 0; --axis) {
    if (tensor.shape[axis - 1] == 1) continue;
    if (tensor.strides[axis - 1] != rows * step) return std::nullopt;
    rows *= tensor.shape[axis - 1];
  }
  return Rows{columns, step};
}

}  // namespace keel

#endif  // KEEL_ROWS_HPP_
