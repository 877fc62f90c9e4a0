// SPDX-License-Identifier: Apache-2.0
// elementwise, reduce, gather and scatter: the functions, of float tensors of one dtype, that the
// library has; the rest is left to the fallback.
#include <algorithm>
#include <cfloat>
#include <cmath>

#include "backends/ascend/ops.h"
#include "backends/ascend/types.h"

namespace keel::ascend {
namespace {

bool is_float(const keel_tensor& tensor) {
  return is_float32(tensor) || is_16_bit(tensor.dtype);
}

// ---- elementwise -----------------------------------------------------------------------

// Tensors may be broadcast by strides of 0, which the library does by extents of 1.
View broadcast_view(const keel_tensor& tensor) {
  View view = view_of(tensor);
  for (uint32_t axis = 0; axis < view.rank; ++axis) {
    if (view.strides[axis] != 0) continue;
    view.dims[axis] = 1;
    view.strides[axis] = 1;
  }
  return view;
}

// Whether |a| and |b| broadcast each other to the shape of |y|: the library makes no larger output,
// but both may be broadcast along one axis.
bool covers(const View& a, const View& b, const View& y) {
  for (uint32_t axis = 0; axis < y.rank; ++axis) {
    if (a.dims[axis] != y.dims[axis] && b.dims[axis] != y.dims[axis]) return false;
  }
  return true;
}

bool supports_elementwise(const Functions& functions, const keel_op_call& call) {
  const auto a = kit::attributes<keel_op_elementwise_attributes>(call);
  const keel_tensor& y = output(call, 0);
  if (is_empty(call)) return true;
  if (!is_float(y)) return false;
  for (uint32_t axis = 0; axis < y.rank; ++axis) {
    if (y.shape[axis] != 1 && y.strides[axis] == 0) return false;
  }
  for (uint32_t i = 0; i < call.input_count; ++i) {
    if (has_input(call, i) && input(call, i).dtype != y.dtype) return false;
  }
  if (!has_input(call, 0)) return false;
  const bool is_unary = !has_input(call, 1) && !has_input(call, 2);
  // A broadcast operand of a function of one tensor is copied first, and one of two where both are
  // broadcast along an axis.
  const bool is_copied =
      is_unary || !covers(broadcast_view(input(call, 0)),
                          broadcast_view(input(call, has_input(call, 1) ? 1 : 0)), view_of(y));
  if (is_copied && functions.aclnnInplaceCopy == nullptr) return false;
  // The library rounds a factor or a number to 16 bits, or the product with the factor.
  const bool is_wide = is_float32(y);
  const bool is_binary = has_input(call, 1) && !has_input(call, 2);
  switch (a.function) {
    case KEEL_ELEMENTWISE_FUNCTION_COPY:
      return is_unary;
    case KEEL_ELEMENTWISE_FUNCTION_NEG:
      return is_unary && functions.aclnnMuls != nullptr;
    case KEEL_ELEMENTWISE_FUNCTION_SQRT:
      return is_unary && functions.aclnnSqrt != nullptr;
    case KEEL_ELEMENTWISE_FUNCTION_EXP:
      return is_unary && functions.aclnnExp != nullptr;
    case KEEL_ELEMENTWISE_FUNCTION_LOG:
      return is_unary && functions.aclnnLog != nullptr;
    case KEEL_ELEMENTWISE_FUNCTION_RELU:
      return is_unary && functions.aclnnClamp != nullptr;
    case KEEL_ELEMENTWISE_FUNCTION_CLAMP:
      return is_unary && functions.aclnnClamp != nullptr && !std::isnan(a.b_number) &&
             !std::isnan(a.c_number);
    case KEEL_ELEMENTWISE_FUNCTION_GELU:
      return is_unary && functions.aclnnGeluV2 != nullptr;
    case KEEL_ELEMENTWISE_FUNCTION_TANH:
      return is_unary && functions.aclnnTanh != nullptr;
    case KEEL_ELEMENTWISE_FUNCTION_SIGMOID:
      return is_unary && functions.aclnnSigmoid != nullptr;
    case KEEL_ELEMENTWISE_FUNCTION_RSQRT:
      return is_unary && functions.aclnnRsqrt != nullptr;
    case KEEL_ELEMENTWISE_FUNCTION_ADD:
      if (is_binary) return is_wide || a.alpha == 1;
      return is_unary && is_wide && functions.aclnnAdds != nullptr;
    case KEEL_ELEMENTWISE_FUNCTION_SUB:
      return is_binary && (is_wide || a.alpha == 1) && functions.aclnnSub != nullptr;
    case KEEL_ELEMENTWISE_FUNCTION_MUL:
      if (is_binary) return functions.aclnnMul != nullptr;
      return is_unary && is_wide && functions.aclnnMuls != nullptr;
    case KEEL_ELEMENTWISE_FUNCTION_DIV:
      return is_binary && functions.aclnnDiv != nullptr;
    case KEEL_ELEMENTWISE_FUNCTION_MAXIMUM:
      return is_binary && functions.aclnnMaximum != nullptr;
    default:
      return false;
  }
}

// Copies |*in_out_a| to y first if their shapes differ, for operators that do not broadcast so far.
// It then has strides of 0, so that y is no memory of an input.
keel_status expand(OperatorCalls& calls, const View& y, View* in_out_a) {
  const View a = *in_out_a;
  if (std::equal(a.dims, a.dims + a.rank, y.dims)) return KEEL_OK;
  *in_out_a = y;
  return KEEL_ACLNN(calls, InplaceCopy, y, a);
}

keel_status run_elementwise(OperatorCalls& calls, const keel_op_call& call, Temporaries /*none*/) {
  const auto attributes = kit::attributes<keel_op_elementwise_attributes>(call);
  const View y = view_of(output(call, 0));
  View a = broadcast_view(input(call, 0));
  if (has_input(call, 1)) {
    const View b = broadcast_view(input(call, 1));
    if (!covers(a, b, y)) KEEL_TRY(expand(calls, y, &a));
    switch (attributes.function) {
      case KEEL_ELEMENTWISE_FUNCTION_ADD:
        return KEEL_ACLNN(calls, Add, a, b, Scalar{attributes.alpha}, y);
      case KEEL_ELEMENTWISE_FUNCTION_SUB:
        return KEEL_ACLNN(calls, Sub, a, b, Scalar{attributes.alpha}, y);
      case KEEL_ELEMENTWISE_FUNCTION_MUL:
        return KEEL_ACLNN(calls, Mul, a, b, y);
      case KEEL_ELEMENTWISE_FUNCTION_MAXIMUM:
        return KEEL_ACLNN(calls, Maximum, a, b, y);
      default:
        return KEEL_ACLNN(calls, Div, a, b, y);
    }
  }
  if (attributes.function == KEEL_ELEMENTWISE_FUNCTION_COPY) {
    return KEEL_ACLNN(calls, InplaceCopy, y, a);
  }
  KEEL_TRY(expand(calls, y, &a));
  switch (attributes.function) {
    case KEEL_ELEMENTWISE_FUNCTION_NEG:
      return KEEL_ACLNN(calls, Muls, a, Scalar{-1}, y);
    case KEEL_ELEMENTWISE_FUNCTION_SQRT:
      return KEEL_ACLNN(calls, Sqrt, a, y);
    case KEEL_ELEMENTWISE_FUNCTION_EXP:
      return KEEL_ACLNN(calls, Exp, a, y);
    case KEEL_ELEMENTWISE_FUNCTION_LOG:
      return KEEL_ACLNN(calls, Log, a, y);
    case KEEL_ELEMENTWISE_FUNCTION_RELU:
      return KEEL_ACLNN(calls, Clamp, a, Scalar{0}, Scalar{HUGE_VAL}, y);
    case KEEL_ELEMENTWISE_FUNCTION_CLAMP:
      return KEEL_ACLNN(calls, Clamp, a, Scalar{std::min(attributes.b_number, attributes.c_number)},
                        Scalar{attributes.c_number}, y);
    case KEEL_ELEMENTWISE_FUNCTION_GELU:
      return KEEL_ACLNN(calls, GeluV2, a, ACLNN_GELU_ERF, y);
    case KEEL_ELEMENTWISE_FUNCTION_TANH:
      return KEEL_ACLNN(calls, Tanh, a, y);
    case KEEL_ELEMENTWISE_FUNCTION_SIGMOID:
      return KEEL_ACLNN(calls, Sigmoid, a, y);
    case KEEL_ELEMENTWISE_FUNCTION_RSQRT:
      return KEEL_ACLNN(calls, Rsqrt, a, y);
    case KEEL_ELEMENTWISE_FUNCTION_ADD:
      return KEEL_ACLNN(calls, Adds, a, Scalar{attributes.b_number}, Scalar{attributes.alpha}, y);
    default:
      return KEEL_ACLNN(calls, Muls, a, Scalar{attributes.b_number}, y);
  }
}

// ---- reduce ----------------------------------------------------------------------------

Ints reduced_axes(const keel_tensor& x, const keel_tensor& y) {
  Ints axes;
  for (uint32_t axis = 0; axis < x.rank; ++axis) {
    if (y.shape[axis] != x.shape[axis]) axes.values[axes.size++] = axis;
  }
  return axes;
}

// A reduction without axes is left to the fallback: the library reads no axes as all.
bool supports_reduce(const Functions& functions, const keel_op_call& call) {
  const keel_tensor& x = input(call, 0);
  const keel_tensor& y = output(call, 0);
  if (!is_float(x) || x.dtype != y.dtype || !are_plain(call) || is_empty(call) ||
      reduced_axes(x, y).size == 0) {
    return false;
  }
  const bool has_sum = functions.aclnnReduceSum != nullptr;
  const bool has_most = functions.aclnnAmax != nullptr && functions.aclnnMuls != nullptr;
  switch (kit::attributes<keel_op_reduce_attributes>(call).function) {
    case KEEL_REDUCE_FUNCTION_MAX:
    case KEEL_REDUCE_FUNCTION_MIN:
    case KEEL_REDUCE_FUNCTION_ANY:
    case KEEL_REDUCE_FUNCTION_ALL:
      return has_most;
    case KEEL_REDUCE_FUNCTION_SUM:
    case KEEL_REDUCE_FUNCTION_MEAN:
      return has_sum && functions.aclnnMuls != nullptr;
    case KEEL_REDUCE_FUNCTION_SUM_OF_SQUARES:
    case KEEL_REDUCE_FUNCTION_NORM:
      return has_sum && functions.aclnnMul != nullptr && functions.aclnnSqrt != nullptr;
    case KEEL_REDUCE_FUNCTION_ABS_SUM:
      return has_sum && functions.aclnnMuls != nullptr && functions.aclnnClamp != nullptr;
    case KEEL_REDUCE_FUNCTION_ABS_MAX:
      return has_most && functions.aclnnClamp != nullptr;
    case KEEL_REDUCE_FUNCTION_LOG_SUM_EXP:
      return has_sum && has_most && functions.aclnnClamp != nullptr &&
             functions.aclnnSub != nullptr && functions.aclnnExp != nullptr &&
             functions.aclnnLog != nullptr;
    default:
      return false;
  }
}

// x in float32, three values made of it, y twice.
uint64_t reduce_workspace(const keel_op_call& call) {
  return temporaries_like(input(call, 0), 4) + temporaries_like(output(call, 0), 2);
}

// Writes what is reduced, in float32: squares, absolute values, 0 or 1.
keel_status terms_of(OperatorCalls& calls, int64_t function, const View& x,
                     Temporaries* temporaries, View* out_terms) {
  *out_terms = x;
  switch (function) {
    case KEEL_REDUCE_FUNCTION_SUM_OF_SQUARES:
    case KEEL_REDUCE_FUNCTION_NORM:
      *out_terms = temporaries->take(ACL_FLOAT, x);
      return KEEL_ACLNN(calls, Mul, x, x, *out_terms);
    case KEEL_REDUCE_FUNCTION_ABS_SUM:
    case KEEL_REDUCE_FUNCTION_ABS_MAX:
      return absolute(calls, x, temporaries, out_terms);
    case KEEL_REDUCE_FUNCTION_ANY:
    case KEEL_REDUCE_FUNCTION_ALL: {
      const View is_true = temporaries->take(ACL_BOOL, x, /*element_bytes=*/4);
      *out_terms = temporaries->take(ACL_FLOAT, x);
      KEEL_TRY(KEEL_ACLNN(calls, Cast, x, ACL_BOOL, is_true));
      return KEEL_ACLNN(calls, Cast, is_true, ACL_FLOAT, *out_terms);
    }
    default:
      return KEEL_OK;
  }
}

// The least is the negated largest of the negated. |terms| may be an input.
keel_status least_of(OperatorCalls& calls, const View& terms, const Ints& axes,
                     Temporaries* temporaries, const View& y) {
  const View negative = temporaries->take(ACL_FLOAT, terms);
  KEEL_TRY(KEEL_ACLNN(calls, Muls, terms, Scalar{-1}, negative));
  KEEL_TRY(KEEL_ACLNN(calls, Amax, negative, axes, /*keepDim=*/true, y));
  return KEEL_ACLNN(calls, Muls, y, Scalar{-1}, y);
}

// The largest element counts as a finite one where it is not: powers then are 0 or infinite.
keel_status log_sum_exp_of(OperatorCalls& calls, const View& x, const Ints& axes,
                           Temporaries* temporaries, const View& y) {
  const View powers = temporaries->take(ACL_FLOAT, x);
  const View most = temporaries->take(ACL_FLOAT, y);
  KEEL_TRY(KEEL_ACLNN(calls, Amax, x, axes, /*keepDim=*/true, most));
  KEEL_TRY(KEEL_ACLNN(calls, Clamp, most, Scalar{-FLT_MAX}, Scalar{FLT_MAX}, most));
  KEEL_TRY(KEEL_ACLNN(calls, Sub, x, most, Scalar{1}, powers));
  KEEL_TRY(KEEL_ACLNN(calls, Exp, powers, powers));
  KEEL_TRY(KEEL_ACLNN(calls, ReduceSum, powers, axes, /*keepDims=*/true, ACL_FLOAT, y));
  KEEL_TRY(KEEL_ACLNN(calls, Log, y, y));
  return KEEL_ACLNN(calls, Add, y, most, Scalar{1}, y);
}

keel_status run_reduce(OperatorCalls& calls, const keel_op_call& call, Temporaries temporaries) {
  const auto function = kit::attributes<keel_op_reduce_attributes>(call).function;
  const Ints axes = reduced_axes(input(call, 0), output(call, 0));
  const View y = view_of(output(call, 0));
  View x = view_of(input(call, 0));
  if (function == KEEL_REDUCE_FUNCTION_MAX) {
    return KEEL_ACLNN(calls, Amax, x, axes, /*keepDim=*/true, y);
  }
  KEEL_TRY(widen(calls, x, &temporaries, &x));
  const View wide = wide_of(y, temporaries.take(ACL_FLOAT, y));
  View terms;
  KEEL_TRY(terms_of(calls, function, x, &temporaries, &terms));
  switch (function) {
    case KEEL_REDUCE_FUNCTION_ABS_MAX:
    case KEEL_REDUCE_FUNCTION_ANY:
      KEEL_TRY(KEEL_ACLNN(calls, Amax, terms, axes, /*keepDim=*/true, wide));
      break;
    case KEEL_REDUCE_FUNCTION_MIN:
    case KEEL_REDUCE_FUNCTION_ALL:
      KEEL_TRY(least_of(calls, terms, axes, &temporaries, wide));
      break;
    case KEEL_REDUCE_FUNCTION_LOG_SUM_EXP:
      KEEL_TRY(log_sum_exp_of(calls, terms, axes, &temporaries, wide));
      break;
    default:
      KEEL_TRY(KEEL_ACLNN(calls, ReduceSum, terms, axes, /*keepDims=*/true, ACL_FLOAT, wide));
  }
  if (function == KEEL_REDUCE_FUNCTION_NORM) KEEL_TRY(KEEL_ACLNN(calls, Sqrt, wide, wide));
  if (function == KEEL_REDUCE_FUNCTION_MEAN) {
    const auto count = static_cast<double>(kit::element_count(input(call, 0))) /
                       static_cast<double>(kit::element_count(output(call, 0)));
    KEEL_TRY(KEEL_ACLNN(calls, Muls, wide, Scalar{1 / count}, wide));
  }
  return narrow(calls, wide, y);
}

// ---- gather, scatter -------------------------------------------------------------------

// Three values for each index, as wide as the index.
uint64_t index_workspace(const keel_tensor& index) {
  return 3 * Temporaries::rounded(static_cast<uint64_t>(kit::element_count(index)) *
                                  kit::dtype_size(index.dtype));
}

bool supports_gather(const Functions& functions, const keel_op_call& call) {
  return functions.aclnnGather != nullptr && has_checked_indices(functions) && are_plain(call) &&
         input(call, 0).rank != 0;
}

uint64_t gather_workspace(const keel_op_call& call) {
  return index_workspace(input(call, 1)) + Temporaries::rounded(8);
}

keel_status run_gather(OperatorCalls& calls, const keel_op_call& call, Temporaries temporaries) {
  const int64_t axis = kit::attributes<keel_op_gather_attributes>(call).axis;
  const aclDataType type = mover_of(kit::dtype_size(input(call, 0).dtype));
  const View x = view_of(input(call, 0)).as(type);
  const View y = view_of(output(call, 0)).as(type);
  View valid;
  View outside;
  View zero;
  KEEL_TRY(check_indices(calls, view_of(input(call, 1)), /*first=*/0, x.dims[axis], &temporaries,
                         &valid, &outside));
  KEEL_TRY(constant(calls, type, 0, y.rank, &temporaries, &zero));
  KEEL_TRY(KEEL_ACLNN(calls, Gather, x, axis, valid, y));
  return KEEL_ACLNN(calls, SWhere, outside, zero, y, y);
}

// Float sums. Of stores to one element the library does not say which is the last, and of integers
// not that they wrap.
bool supports_scatter(const Functions& functions, const keel_op_call& call) {
  return functions.aclnnScatterAdd != nullptr && functions.aclnnInplaceCopy != nullptr &&
         has_checked_indices(functions) && are_plain(call) && input(call, 0).rank != 0 &&
         is_float(output(call, 0)) && input(call, 0).dtype == output(call, 0).dtype &&
         kit::attributes<keel_op_scatter_attributes>(call).add != 0;
}

// x and y without gaps, and a zero.
uint64_t scatter_workspace(const keel_op_call& call) {
  return index_workspace(input(call, 1)) + temporaries_like(input(call, 0), 1) +
         temporaries_like(output(call, 0), 1) + Temporaries::rounded(4);
}

// An element with an index outside is added as 0.
keel_status run_scatter(OperatorCalls& calls, const keel_op_call& call, Temporaries temporaries) {
  const int64_t axis = kit::attributes<keel_op_scatter_attributes>(call).axis;
  const View x = view_of(input(call, 0));
  const View y = view_of(output(call, 0));
  View valid;
  View outside;
  View zero;
  KEEL_TRY(check_indices(calls, view_of(input(call, 1)), /*first=*/0, y.dims[axis], &temporaries,
                         &valid, &outside));
  const auto type = static_cast<aclDataType>(y.type);
  KEEL_TRY(constant(calls, type, 0, x.rank, &temporaries, &zero));
  const View terms = temporaries.take(type, x);
  const View sums = temporaries.take(type, y);
  KEEL_TRY(KEEL_ACLNN(calls, SWhere, outside, zero, x, terms));
  KEEL_TRY(KEEL_ACLNN(calls, ScatterAdd, y, axis, valid, terms, sums));
  return KEEL_ACLNN(calls, InplaceCopy, y, sums);
}

}  // namespace

const Op kElementwise = {"aclnn.add, mul, ...", KEEL_OP_NATIVE, supports_elementwise, nullptr,
                         run_elementwise};
const Op kReduce = {"aclnn.reduce_sum, amax", KEEL_OP_NATIVE, supports_reduce, reduce_workspace,
                    run_reduce};
const Op kGather = {"aclnn.gather+where", KEEL_OP_COMPOSED, supports_gather, gather_workspace,
                    run_gather};
const Op kScatter = {"aclnn.where+scatter_add", KEEL_OP_COMPOSED, supports_scatter,
                     scatter_workspace,         run_scatter,      always};

}  // namespace keel::ascend
