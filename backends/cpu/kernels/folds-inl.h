// SPDX-License-Identifier: Apache-2.0
// The steps of reductions over arrays of a compute type: float, double or int64_t.
// Included by kernels_family_*.cc after <hwy/highway.h>, once per instruction set.
#if defined(KEEL_BACKENDS_CPU_KERNELS_FOLDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KEEL_BACKENDS_CPU_KERNELS_FOLDS_INL_H_
#undef KEEL_BACKENDS_CPU_KERNELS_FOLDS_INL_H_
#else
#define KEEL_BACKENDS_CPU_KERNELS_FOLDS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "backends/cpu/kernels/convert-inl.h"
#include "backends/cpu/kernels/exp-inl.h"
#include "backends/cpu/kernels/families.h"
#include "backends/cpu/kernels/functions-inl.h"
#include "backends/cpu/kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace keel::cpu::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Sums of a float32 array run over at most so many elements before they are added in float64: 32
// additions for each of the lanes.
constexpr int64_t kFoldBlock = 1024;
constexpr int64_t kLanes = 32;
// Rows of a float32 sum before they are added in float64, and columns that are folded at a time.
constexpr int64_t kFoldRows = 32;
constexpr int64_t kFoldColumns = 128;

template <typename Number>
HWY_INLINE Number wide_sum(Number a, Number b) {
  if constexpr (std::is_same_v<Number, int64_t>) return wrapped_add(a, b);
  return a + b;
}
template <typename Number>
HWY_INLINE Number wide_product(Number a, Number b) {
  if constexpr (std::is_same_v<Number, int64_t>) return wrapped_multiply(a, b);
  return a * b;
}
// Whether |x| replaces |best|, which came before.
template <bool kMax, typename Number>
HWY_INLINE bool beats(Number x, Number best) {
  return (kMax ? x > best : x < best) || (x != x && best == best);
}

// Folds an array with |step|, an operation of any order, by lanes.
template <typename Sum, typename Number, class Step>
HWY_INLINE Sum fold_lanes(const Number* x, int64_t count, Sum initial, const Step& step) {
  Sum lanes[kLanes];
  for (int64_t k = 0; k < kLanes; ++k) lanes[k] = initial;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t k = 0; k < kLanes; ++k) lanes[k] = step(lanes[k], static_cast<Sum>(x[i + k]));
  }
  for (int64_t k = 0; i + k < count; ++k) lanes[k] = step(lanes[k], static_cast<Sum>(x[i + k]));
  for (int64_t width = kLanes / 2; width > 0; width /= 2) {
    for (int64_t k = 0; k < width; ++k) lanes[k] = step(lanes[k], lanes[k + width]);
  }
  return lanes[0];
}

// ---- the logarithm of a sum of exponentials ---------------------------------------

// Moves a sum of exponentials to a larger |top|.
template <typename Number>
HWY_INLINE void raise_top(double top, Partial<Number>* state) {
  const auto old = static_cast<double>(state->value);
  if (!(top > old)) return;
  if (state->sum != 0) state->sum *= std::exp(old - top);
  state->value = static_cast<typename Partial<Number>::Wide>(top);
}

// exp(x - top), 1 for equals, infinite ones among them.
HWY_INLINE double exp_below(double x, double top) {
  return x == top ? 1 : std::exp(x - top);
}

template <typename Number>
HWY_INLINE void fold_exponentials(const Number* x, int64_t count, Partial<Number>* state) {
  for (int64_t begin = 0; begin < count; begin += kFoldBlock) {
    const int64_t size = std::min(kFoldBlock, count - begin);
    const Number* const block = x + begin;
    // Ignores NaN, which makes the sum NaN.
    const Number top = fold_lanes(block, size, std::numeric_limits<Number>::lowest(),
                                  [](Number a, Number b) HWY_ATTR { return b > a ? b : a; });
    raise_top(static_cast<double>(top), state);
    const auto shift = static_cast<double>(state->value);
    double sum = 0;
    if constexpr (std::is_same_v<Number, float>) {
      if (shift < std::numeric_limits<double>::infinity()) {
        state->sum += static_cast<double>(vector_sum(size, [=](auto d, int64_t i) HWY_ATTR {
          return exp_in_range(
              d, hn::Sub(hn::LoadU(d, block + i), hn::Set(d, static_cast<float>(shift))));
        }));
        continue;
      }
    }
    for (int64_t i = 0; i < size; ++i) sum += exp_below(static_cast<double>(block[i]), shift);
    state->sum += sum;
  }
}

// ---- along a row ------------------------------------------------------------------

template <bool kMax, typename Number>
HWY_INLINE void fold_place(const Number* x, int64_t count, int64_t first, Partial<Number>* state) {
  if (count == 0) return;
  const Number best =
      fold_lanes(x, count, x[0], [](Number a, Number b) HWY_ATTR { return farther<kMax>(a, b); });
  if (state->index >= 0 && !beats<kMax>(best, static_cast<Number>(state->value))) return;
  int64_t i = 0;
  if (best != best) {
    while (x[i] == x[i]) ++i;
  } else {
    while (x[i] != best) ++i;
  }
  state->value = static_cast<typename Partial<Number>::Wide>(best);
  state->index = first + i;
}

template <typename Number>
void fold_row(Fold fold, const Number* x, int64_t count, int64_t first, Partial<Number>* state) {
  using Wide = typename Partial<Number>::Wide;
  switch (fold) {
    case Fold::kAdd:
      for (int64_t begin = 0; begin < count; begin += kFoldBlock) {
        const Number sum = fold_lanes(x + begin, std::min(kFoldBlock, count - begin), Number{0},
                                      [](Number a, Number b) HWY_ATTR { return wide_sum(a, b); });
        state->value = wide_sum(state->value, static_cast<Wide>(sum));
      }
      return;
    case Fold::kMultiply:
      state->value = wide_product(
          state->value, fold_lanes(x, count, Wide{1},
                                   [](Wide a, Wide b) HWY_ATTR { return wide_product(a, b); }));
      return;
    case Fold::kMax:
    case Fold::kMin: {
      if (count == 0) return;
      const Number best =
          fold == Fold::kMax
              ? fold_lanes(x, count, x[0],
                           [](Number a, Number b) HWY_ATTR { return farther<true>(a, b); })
              : fold_lanes(x, count, x[0],
                           [](Number a, Number b) HWY_ATTR { return farther<false>(a, b); });
      const auto wide = static_cast<Wide>(best);
      state->value = fold == Fold::kMax ? farther<true>(state->value, wide)
                                        : farther<false>(state->value, wide);
      return;
    }
    case Fold::kArgMax:
      return fold_place<true>(x, count, first, state);
    case Fold::kArgMin:
      return fold_place<false>(x, count, first, state);
    case Fold::kLogSumExp:
      return fold_exponentials(x, count, state);
  }
}

// ---- along columns ----------------------------------------------------------------

// Folds |rows| rows of |columns| columns, at most kFoldColumns, by |step| on numbers of type Sum;
// join(state, folded) takes in the result of every kFoldRows rows.
template <typename Sum, typename Number, class Step, class Join>
HWY_INLINE void fold_columns(const Number* x, int64_t rows, int64_t row_step, int64_t columns,
                             Partial<Number>* states, const Step& step, const Join& join) {
  Sum folded[kFoldColumns];
  for (int64_t begin = 0; begin < rows; begin += kFoldRows) {
    const int64_t end = std::min(rows, begin + kFoldRows);
    for (int64_t j = 0; j < columns; ++j) folded[j] = static_cast<Sum>(x[begin * row_step + j]);
    for (int64_t i = begin + 1; i < end; ++i) {
      const Number* const row = x + i * row_step;
      for (int64_t j = 0; j < columns; ++j) folded[j] = step(folded[j], static_cast<Sum>(row[j]));
    }
    for (int64_t j = 0; j < columns; ++j) {
      states[j].value =
          join(states[j].value, static_cast<typename Partial<Number>::Wide>(folded[j]));
    }
  }
}

template <bool kMax, typename Number>
HWY_INLINE void fold_farthest(const Number* x, int64_t rows, int64_t row_step, int64_t columns,
                              Partial<Number>* states) {
  using Wide = typename Partial<Number>::Wide;
  fold_columns<Number>(
      x, rows, row_step, columns, states,
      [](Number a, Number b) HWY_ATTR { return farther<kMax>(a, b); },
      [](Wide a, Wide b) HWY_ATTR { return farther<kMax>(a, b); });
}

template <bool kMax, typename Number>
HWY_INLINE void fold_places(const Number* x, int64_t rows, int64_t row_step, int64_t columns,
                            int64_t first, Partial<Number>* states) {
  Number best[kFoldColumns];
  int64_t place[kFoldColumns];
  for (int64_t j = 0; j < columns; ++j) {
    const bool is_new = states[j].index < 0;
    best[j] = is_new ? x[j] : static_cast<Number>(states[j].value);
    place[j] = is_new ? first : states[j].index;
  }
  for (int64_t i = 0; i < rows; ++i) {
    const Number* const row = x + i * row_step;
    for (int64_t j = 0; j < columns; ++j) {
      const bool is_better = beats<kMax>(row[j], best[j]);
      best[j] = is_better ? row[j] : best[j];
      place[j] = is_better ? first + i : place[j];
    }
  }
  for (int64_t j = 0; j < columns; ++j) {
    states[j].value = static_cast<typename Partial<Number>::Wide>(best[j]);
    states[j].index = place[j];
  }
}

template <typename Number>
void fold_rows(Fold fold, const Number* x, int64_t rows, int64_t row_step, int64_t columns,
               int64_t first, Partial<Number>* states) {
  using Wide = typename Partial<Number>::Wide;
  if (rows == 0) return;
  for (; columns > kFoldColumns; columns -= kFoldColumns) {
    fold_rows(fold, x, rows, row_step, kFoldColumns, first, states);
    x += kFoldColumns;
    states += kFoldColumns;
  }
  switch (fold) {
    case Fold::kAdd:
      return fold_columns<Number>(
          x, rows, row_step, columns, states,
          [](Number a, Number b) HWY_ATTR { return wide_sum(a, b); },
          [](Wide a, Wide b) HWY_ATTR { return wide_sum(a, b); });
    case Fold::kMultiply:
      return fold_columns<Wide>(
          x, rows, row_step, columns, states,
          [](Wide a, Wide b) HWY_ATTR { return wide_product(a, b); },
          [](Wide a, Wide b) HWY_ATTR { return wide_product(a, b); });
    case Fold::kMax:
      return fold_farthest<true>(x, rows, row_step, columns, states);
    case Fold::kMin:
      return fold_farthest<false>(x, rows, row_step, columns, states);
    case Fold::kArgMax:
      return fold_places<true>(x, rows, row_step, columns, first, states);
    case Fold::kArgMin:
      return fold_places<false>(x, rows, row_step, columns, first, states);
    case Fold::kLogSumExp:
      for (int64_t j = 0; j < columns; ++j) {
        Number column[kFoldRows];
        for (int64_t begin = 0; begin < rows; begin += kFoldRows) {
          const int64_t size = std::min(kFoldRows, rows - begin);
          for (int64_t i = 0; i < size; ++i) column[i] = x[(begin + i) * row_step + j];
          fold_exponentials(column, size, &states[j]);
        }
      }
      return;
  }
}

template <typename Number>
void join(Fold fold, const Partial<Number>& from, Partial<Number>* state) {
  switch (fold) {
    case Fold::kAdd:
      state->value = wide_sum(state->value, from.value);
      return;
    case Fold::kMultiply:
      state->value = wide_product(state->value, from.value);
      return;
    case Fold::kMax:
      state->value = farther<true>(state->value, from.value);
      return;
    case Fold::kMin:
      state->value = farther<false>(state->value, from.value);
      return;
    case Fold::kArgMax:
    case Fold::kArgMin: {
      if (from.index < 0) return;
      const bool is_better = fold == Fold::kArgMax ? beats<true>(from.value, state->value)
                                                   : beats<false>(from.value, state->value);
      if (state->index < 0 || is_better) *state = from;
      return;
    }
    case Fold::kLogSumExp: {
      Partial<Number> lower = from;
      raise_top(static_cast<double>(from.value), state);
      raise_top(static_cast<double>(state->value), &lower);
      state->sum += lower.sum;
      return;
    }
  }
}

template <typename Number>
constexpr Family<Number> make_family(void (*apply)(const Arguments<Number>&)) {
  Family<Number> result = {};
  add_all_conversions(&result);
  result.apply = apply;
  result.fold_row = fold_row<Number>;
  result.fold_rows = fold_rows<Number>;
  result.join = join<Number>;
  return result;
}

}  // namespace HWY_NAMESPACE
}  // namespace keel::cpu::kernels
HWY_AFTER_NAMESPACE();

#endif  // KEEL_BACKENDS_CPU_KERNELS_FOLDS_INL_H_
