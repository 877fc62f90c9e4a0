// SPDX-License-Identifier: Apache-2.0
// Distribution of a matrix row over the team that processes the row.
#ifndef KEEL_KERNELS_GPU_ROWS_H_
#define KEEL_KERNELS_GPU_ROWS_H_

#include "kernels/gpu/simt.h"

namespace keel::simt {

// Elements of |T| in the widest access.
template <typename T>
inline constexpr int kLanes = 16 / sizeof(T);

// Returns whether rows of |columns| elements of |T|, the first row at |address|, all begin at
// multiples of 16 bytes.
template <typename T>
KEEL_SIMT_FUNCTION bool has_aligned_rows(Address address, uint64_t columns) {
  return address % 16 == 0 && columns % kLanes<T> == 0;
}

// Calls body(Width<n>, c) for the columns c, c + 1, ... c + n - 1: covers [0, columns) once,
// |lanes| at a time for aligned rows. A thread gets the same columns in every call.
template <typename Team, int lanes, typename Body>
KEEL_SIMT_FUNCTION void for_each_column(uint64_t columns, bool is_aligned, const Body& body) {
  if (is_aligned) {
    for (uint64_t c = uint64_t{lanes} * Team::rank(); c < columns; c += lanes * Team::kSize) {
      body(Width<lanes>{}, c);
    }
  } else {
    for (uint64_t c = Team::rank(); c < columns; c += Team::kSize) body(Width<1>{}, c);
  }
}

// A row as float32, for several passes. |Load| computes the values of Width<n> columns from c. An
// aligned row of up to 32 values a thread is computed once and kept in registers: softmax and
// layer_norm of 1024 columns took 1.35 times as long on an H100, in bfloat16 2.4 times, when each
// pass read and converted the row again. A longer row is computed again in each pass.
template <typename T, typename Team, typename Load>
class RowValues {
 public:
  KEEL_SIMT_FUNCTION RowValues(uint64_t columns, bool is_aligned, const Load& load)
      : load_(load),
        columns_(columns),
        is_aligned_(is_aligned),
        is_kept_(is_aligned && columns <= uint64_t{kPieces * kLanes<T>} * Team::kSize) {
    if (!is_kept_) return;
    for (uint32_t piece = 0; piece < kPieces; ++piece) {
      const uint32_t c = column_of(piece);
      if (c < columns_) kept_[piece] = load_(Width<kLanes<T>>{}, c);
    }
  }

  // Whether a pass sees what the pass before it has written.
  KEEL_SIMT_FUNCTION bool is_kept() const { return is_kept_; }

  // Calls body(Width<n>, c, values) for each column of this thread, in the order of
  // for_each_column.
  template <typename Body>
  KEEL_SIMT_FUNCTION void for_each(const Body& body) {
    if (is_kept_) {
      for (uint32_t piece = 0; piece < kPieces; ++piece) {
        const uint32_t c = column_of(piece);
        if (c < columns_) body(Width<kLanes<T>>{}, c, kept_[piece]);
      }
      return;
    }
    for_each_column<Team, kLanes<T>>(columns_, is_aligned_, [&](auto width, uint64_t c) {
      auto values = load_(width, c);
      body(width, c, values);
    });
  }

 private:
  static constexpr uint32_t kPieces = 32 / kLanes<T>;

  KEEL_SIMT_FUNCTION static uint32_t column_of(uint32_t piece) {
    return kLanes<T> * (piece * Team::kSize + Team::rank());
  }

  const Load& load_;
  const uint64_t columns_;
  const bool is_aligned_;
  const bool is_kept_;
  Lanes<float, kLanes<T>> kept_[kPieces];
};

}  // namespace keel::simt

#endif  // KEEL_KERNELS_GPU_ROWS_H_
