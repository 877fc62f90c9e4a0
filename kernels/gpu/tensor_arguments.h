// SPDX-License-Identifier: Apache-2.0
// Arguments of the kernels that take tensors of any dtypes and strides: elementwise, reduce, gather
// and scatter. What arguments.h says of its structs holds here.
#ifndef KEEL_KERNELS_GPU_TENSOR_ARGUMENTS_H_
#define KEEL_KERNELS_GPU_TENSOR_ARGUMENTS_H_

#include <cstdint>

#include "kernels/gpu/arguments.h"

namespace keel::simt {

// The dtype of a tensor, as a value.
enum class ElementType : uint32_t { f64, f32, f16, bf16, i64, i32, i16, i8, u8 };

// The functions of elementwise and of reduce, numbered as in the operators' attributes.
enum class Function : uint32_t {
  copy,
  arange,
  neg,
  abs,
  sign,
  floor,
  ceil,
  round,
  trunc,
  sqrt,
  rsqrt,
  reciprocal,
  exp,
  exp2,
  expm1,
  log,
  log2,
  log1p,
  sin,
  cos,
  tanh,
  sigmoid,
  relu,
  silu,
  erf,
  gelu,
  is_nan,
  logical_not,
  bitwise_not,
  add,
  sub,
  mul,
  div,
  floor_div,
  remainder,
  fmod,
  pow,
  maximum,
  minimum,
  atan2,
  eq,
  ne,
  lt,
  le,
  gt,
  ge,
  logical_and,
  logical_or,
  logical_xor,
  bitwise_and,
  bitwise_or,
  bitwise_xor,
  tanh_backward,
  sigmoid_backward,
  threshold_backward,
  silu_backward,
  gelu_backward,
  clamp,
  where,
  addcmul,
  addcdiv,
  lerp,
  uniform,
  normal,
  bernoulli
};
enum class Reduction : uint32_t {
  sum,
  mean,
  prod,
  max,
  min,
  argmax,
  argmin,
  any,
  all,
  sum_of_squares,
  norm,
  abs_sum,
  abs_max,
  log_sum_exp
};

inline constexpr uint32_t kMaxAxes = 8;
// Elements that a thread processes together where tensors allow it.
inline constexpr uint32_t kGroup = 4;

// Divides numbers below 2^31 by |extent|, which is from 1 to 2^31, as a product and a shift
// (Granlund and Montgomery, 1994). The host computes the two by Divider::of.
struct Divider {
  uint32_t multiplier;
  uint32_t shift;
};

// The least shift with 2^shift >= extent, and the multiplier 2^32 (2^shift - extent) / extent + 1.
constexpr Divider divider_of(uint64_t extent) {
  uint32_t shift = 0;
  while (shift < 31 && uint64_t{1} << shift < extent) ++shift;
  const uint64_t power = uint64_t{1} << shift;
  return {static_cast<uint32_t>(((power - extent) << 32) / extent + 1), shift};
}

// An axis of |tensors| tensors, with its strides in elements.
template <uint32_t tensors>
struct Axis {
  uint64_t extent;
  Divider divider;
  uint64_t strides[tensors];
};

// How a group of kGroup elements is read: one access, one element for all, or one by one.
enum class GroupAccess : uint32_t { vector, splat, strided };

// The operands of an elementwise call, in this order.
enum : uint32_t { kOperandA, kOperandB, kOperandC, kOperandY, kOperands };

// y = function(a, b, c), with |T| the type of the computation. An index counts groups of |lanes|
// elements, which follow each other along the last axis, |steps| apart; axes have groups. Behind
// them come the last |tail| elements, of tensors with one axis. |function|: the operator's
// attribute. Address 0: the number.
template <typename T>
struct FunctionArguments {
  Address tensors[kOperands];
  uint64_t groups, tail;
  uint64_t seed, offset;
  T numbers[3];
  T alpha;
  Function function;
  uint32_t lanes;
  ElementType types[kOperands];
  GroupAccess access[kOperands];
  uint64_t steps[kOperands];
  uint32_t axis_count;
  uint32_t is_small;  // |groups| is below 2^31
  Axis<kOperands> axes[kMaxAxes];
};

// A partial result: a value, a second number (the lost bits of a sum, the sum of a log_sum_exp),
// and the index of an argmax.
template <typename T>
struct ReduceState {
  T value;
  T extra;
  uint64_t index;
};
// The index of a state without elements.
inline constexpr uint64_t kNoIndex = ~uint64_t{0};

// Each output is computed from |slices| slices of |slice| groups, each one by |team| threads: 1, 2,
// 4, 8, 16, the warp or the block. With more than one slice the partial states go to |states|,
// [slice, output], and a second launch, with |joins|, takes them from there: |groups| states an
// output. |kept| axes have strides in x and y, |reduced| axes in x; reduced axes have groups of
// |lanes| elements, |step| apart, and the last |tail| elements of an only axis come behind them.
template <typename T>
struct ReduceArguments {
  Address x, y, states;
  uint64_t outputs, slices, slice, groups, tail;
  uint64_t count;  // elements for each output
  uint64_t step;
  ElementType x_type, y_type;
  Reduction function;
  uint32_t team;
  uint32_t lanes;
  GroupAccess access;
  uint32_t joins;
  uint32_t kept_count, reduced_count;
  uint32_t is_small;  // |outputs| and |groups| are below 2^31
  Axis<2> kept[kMaxAxes];
  Axis<1> reduced[kMaxAxes];
};

// y[...] = x[..., index[...], ...]: axes have strides in y, index and x; x's of the selecting axis
// are 0 there, and |selected| here. Moved in units of |unit| bytes; strides, but for the index's,
// are in units.
struct GatherArguments {
  Address x, index, y;
  uint64_t count;
  uint64_t selected, selected_extent;
  uint32_t unit;
  ElementType index_type;
  uint32_t axis_count;
  uint32_t is_small;
  Axis<3> axes[kMaxAxes];
};

// y[..., index[...], ...] = or += x[...]: |axes| are those beside the selecting axis, with strides
// in y, index and x. A thread takes the elements of one line along the selecting axis in order,
// |length| of them, and stores those whose index is in its range of |range| of y's
// |selected_extent|: so each element of y has one writer. Stored in units of |unit| bytes, of which
// strides are then.
struct ScatterArguments {
  Address x, index, y;
  uint64_t lines, ranges, range;
  uint64_t length;
  uint64_t selected, selected_extent;  // of y
  uint64_t index_step, x_step;         // along the selecting axis
  ElementType type;                    // to add
  uint32_t unit;                       // to store
  ElementType index_type;
  uint32_t axis_count;
  uint32_t is_small;  // |lines| is below 2^31
  Axis<3> axes[kMaxAxes];
};

}  // namespace keel::simt

#endif  // KEEL_KERNELS_GPU_TENSOR_ARGUMENTS_H_
