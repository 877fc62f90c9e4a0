// SPDX-License-Identifier: Apache-2.0
// The kernels of the families elementwise, reduce, gather and scatter: one per compute type, float,
// double and int64_t, with the function and the dtypes as values. Pointers are host addresses.
#ifndef KEEL_BACKENDS_CPU_KERNELS_FAMILIES_H_
#define KEEL_BACKENDS_CPU_KERNELS_FAMILIES_H_

#include <keel/abi.h>

#include <cstdint>
#include <type_traits>

namespace keel::cpu::kernels {

// ---- planes of elements (kernels_planes.cc) ------------------------------------

// Elements in memory: |rows| rows of |columns|. Steps are in elements.
struct Plane {
  int64_t columns;
  int64_t column_step;
  int64_t rows;
  int64_t row_step;
};

// Copies the elements of a plane, of |size| bytes each (1, 2, 4 or 8), into a dense array or back.
// |past_caches|: dense rows are written by stream_bytes.
void gather_plane(uint32_t size, const void* from, const Plane& plane, void* to);
void scatter_plane(uint32_t size, const void* from, void* to, const Plane& plane, bool past_caches);

// Writes whole lines of 64 bytes past the caches if |to| is aligned to 64 bytes, the rest as usual.
// The caller calls finish_streaming() before it publishes the data.
void stream_bytes(const void* from, void* to, int64_t bytes);
void finish_streaming();

// The words of Philox4x32-10 with |key| from counter |counter| on, four a counter, for |counters|
// counters; |words| holds whole_words(counters).
void random_words(uint64_t key, uint64_t counter, int64_t counters, uint32_t* words);
// Elements of the array that random_words writes: whole vectors.
constexpr int64_t whole_words(int64_t counters) {
  return (counters + 15) / 16 * 64;
}

// ---- one compute type (kernels_family_f32.cc, _f64.cc, _i64.cc) ----------------

// The arguments of a function on |count| elements. |y| may equal a, b or c. Functions of fewer
// arguments do not read the others.
template <typename Number>
struct Arguments {
  uint32_t function;  // KEEL_ELEMENTWISE_FUNCTION_...
  int64_t count;
  const Number* a;
  const Number* b;
  const Number* c;
  Number* y;
  double alpha;
  int64_t first;          // position of the first element in row-major order
  const uint32_t* words;  // of random functions: word |first| % 4 is that of the first element
};

// The steps of reductions; what a function of reduce does to the elements before is a function of
// elementwise (see ops_reduce.cc).
enum class Fold : uint8_t { kAdd, kMultiply, kMax, kMin, kArgMax, kArgMin, kLogSumExp };

// The state of a reduction: float sums are accumulated in float32 over some hundred elements, and
// beyond in float64.
template <typename Number>
struct Partial {
  using Wide = std::conditional_t<std::is_same_v<Number, int64_t>, int64_t, double>;
  Wide value;
  union {
    int64_t index;  // kArgMax, kArgMin: of the element |value|; -1 before the first element
    double sum;     // kLogSumExp: of exp(x - value)
  };
};

template <typename Number>
inline constexpr keel_dtype kDtypeOf = std::is_same_v<Number, float>    ? KEEL_FLOAT32
                                       : std::is_same_v<Number, double> ? KEEL_FLOAT64
                                                                        : KEEL_INT64;

template <typename Number>
struct Family {
  // From and to each dtype; NULL for Number itself, and for dtypes that Number is not used with.
  void (*load[KEEL_DTYPE_COUNT])(const void* from, Number* to, int64_t count);
  void (*store[KEEL_DTYPE_COUNT])(const Number* from, void* to, int64_t count);

  void (*apply)(const Arguments<Number>& arguments);

  // Folds |count| elements into |*state|. |first| is the position of x[0] among all reduced
  // elements.
  void (*fold_row)(Fold fold, const Number* x, int64_t count, int64_t first,
                   Partial<Number>* state);
  // Folds x[i * row_step + j] into states[j] for j in [0, columns), for all |rows| rows i.
  void (*fold_rows)(Fold fold, const Number* x, int64_t rows, int64_t row_step, int64_t columns,
                    int64_t first, Partial<Number>* states);
  // Folds |from|, of elements after those of |*state|, into |*state|.
  void (*join)(Fold fold, const Partial<Number>& from, Partial<Number>* state);
};

inline constexpr uint32_t kFamilies = 3;
const Family<float>& family_f32();
const Family<double>& family_f64();
const Family<int64_t>& family_i64();

template <typename Number>
const Family<Number>& family() {
  if constexpr (std::is_same_v<Number, float>) {
    return family_f32();
  } else if constexpr (std::is_same_v<Number, double>) {
    return family_f64();
  } else {
    return family_i64();
  }
}

}  // namespace keel::cpu::kernels

#endif  // KEEL_BACKENDS_CPU_KERNELS_FAMILIES_H_
