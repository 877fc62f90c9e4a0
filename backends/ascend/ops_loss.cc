// SPDX-License-Identifier: Apache-2.0
// cross_entropy, its form by shards, and the gradients of both; sum_of_squares and clip. Composed
// of operators on elements and reductions, in float32.
#include <cfloat>
#include <cmath>

#include "backends/ascend/ops.h"
#include "backends/ascend/types.h"

namespace keel::ascend {
namespace {

constexpr Ints kLastOfTwo = {{1}, 1};

// ---- cross entropy ---------------------------------------------------------------------

bool supports_powers(const Functions& functions, const keel_op_call& call) {
  return are_plain(call) && has_checked_indices(functions) && functions.aclnnExp != nullptr;
}

bool supports_rows(const Functions& functions, const keel_op_call& call) {
  return supports_powers(functions, call) && functions.aclnnAmax != nullptr &&
         functions.aclnnReduceSum != nullptr;
}

// The targets of the rows are gathered.
bool supports_cross_entropy(const Functions& functions, const keel_op_call& call) {
  return supports_rows(functions, call) && functions.aclnnLog != nullptr &&
         functions.aclnnGather != nullptr;
}

// The largest element of each row and the sum of exp(x - largest).
struct RowSums {
  View most;
  View sum;
};

// Takes three temporaries of the shape of |x| at most.
constexpr uint32_t kRowSumsTemporaries = 3;

// The largest element counts as a finite one in a row of minus infinities, whose sum then is 0 and
// not NaN.
keel_status sum_rows(OperatorCalls& calls, const View& x, Temporaries* temporaries,
                     RowSums* out_sums) {
  const View powers = temporaries->take(ACL_FLOAT, x);
  out_sums->most = temporaries->take(ACL_FLOAT, reduced(x));
  out_sums->sum = temporaries->take(ACL_FLOAT, reduced(x));
  const View& most = out_sums->most;
  KEEL_TRY(KEEL_ACLNN(calls, Amax, x, kLastOfTwo, /*keepDim=*/true, most));
  KEEL_TRY(KEEL_ACLNN(calls, Clamp, most, Scalar{-FLT_MAX}, Scalar{HUGE_VAL}, most));
  KEEL_TRY(KEEL_ACLNN(calls, Sub, x, most, Scalar{1}, powers));
  KEEL_TRY(KEEL_ACLNN(calls, Exp, powers, powers));
  return KEEL_ACLNN(calls, ReduceSum, powers, kLastOfTwo, /*keepDims=*/true, ACL_FLOAT,
                    out_sums->sum);
}

// The logits in float32, sum_rows, four values for each row, a zero.
uint64_t cross_entropy_workspace(const keel_op_call& call) {
  return temporaries_like(input(call, 0), 1 + kRowSumsTemporaries) +
         temporaries_like(input(call, 1), 4) + Temporaries::rounded(4);
}

// loss = log(sum) - (target - most): exact where all logits share a large offset.
keel_status run_cross_entropy(OperatorCalls& calls, const keel_op_call& call,
                              Temporaries temporaries) {
  const View loss = with_last_axis(view_of(output(call, 0)));
  const View logsumexp = with_last_axis(view_of(output(call, 1)));
  View x;
  RowSums rows;
  View label;
  View outside;
  View zero;
  KEEL_TRY(widen(calls, view_of(input(call, 0)), &temporaries, &x));
  KEEL_TRY(sum_rows(calls, x, &temporaries, &rows));
  KEEL_TRY(check_indices(calls, with_last_axis(view_of(input(call, 1))), /*first=*/0, x.dims[1],
                         &temporaries, &label, &outside));
  KEEL_TRY(constant(calls, ACL_FLOAT, 0, 2, &temporaries, &zero));
  const View target = temporaries.take(ACL_FLOAT, label);
  KEEL_TRY(KEEL_ACLNN(calls, Gather, x, int64_t{1}, label, target));
  KEEL_TRY(KEEL_ACLNN(calls, Sub, target, rows.most, Scalar{1}, target));
  KEEL_TRY(KEEL_ACLNN(calls, Log, rows.sum, rows.sum));
  KEEL_TRY(KEEL_ACLNN(calls, Add, rows.sum, rows.most, Scalar{1}, logsumexp));
  KEEL_TRY(KEEL_ACLNN(calls, Sub, rows.sum, target, Scalar{1}, target));
  return KEEL_ACLNN(calls, SWhere, outside, zero, target, loss);
}

bool supports_cross_entropy_backward(const Functions& functions, const keel_op_call& call) {
  return supports_rows(functions, call) && functions.aclnnLog != nullptr &&
         functions.aclnnMuls != nullptr && functions.aclnnDiv != nullptr &&
         functions.aclnnScatterAdd != nullptr;
}

// The logits in float32, sum_rows, p and the result, eleven values for each row, three constants.
uint64_t cross_entropy_backward_workspace(const keel_op_call& call) {
  return temporaries_like(input(call, 0), 3 + kRowSumsTemporaries) +
         temporaries_like(input(call, 1), 11) + 3 * Temporaries::rounded(4);
}

// Writes to |out_exceeds| whether |values| lie outside of [-bound,bound], or are NaN. Takes two
// temporaries.
keel_status exceeds(OperatorCalls& calls, const View& values, float bound, Temporaries* temporaries,
                    View* out_exceeds) {
  const View rest = temporaries->take(ACL_FLOAT, values);
  *out_exceeds = temporaries->take(ACL_BOOL, values, /*element_bytes=*/4);
  KEEL_TRY(KEEL_ACLNN(calls, Clamp, values, Scalar{-bound}, Scalar{bound}, rest));
  KEEL_TRY(KEEL_ACLNN(calls, Sub, values, rest, Scalar{1}, rest));
  return KEEL_ACLNN(calls, Cast, rest, ACL_BOOL, *out_exceeds);
}

// Splits the logarithm of each row's sum in a part that is subtracted from the logits first and a
// part that is subtracted then: |logsumexp| and 0, or, where float32 has rounded off too much of
// |logsumexp|, the largest logit and the logarithm of the sum of what remains.
keel_status split_logarithm(OperatorCalls& calls, const View& x, const View& logsumexp,
                            Temporaries* temporaries, View* out_first, View* out_second) {
  RowSums rows;
  View zero;
  View is_far;
  View is_large;
  KEEL_TRY(sum_rows(calls, x, temporaries, &rows));
  KEEL_TRY(constant(calls, ACL_FLOAT, 0, 2, temporaries, &zero));
  const View distance = temporaries->take(ACL_FLOAT, logsumexp);
  *out_first = temporaries->take(ACL_FLOAT, logsumexp);
  *out_second = temporaries->take(ACL_FLOAT, logsumexp);
  KEEL_TRY(KEEL_ACLNN(calls, Log, rows.sum, rows.sum));
  KEEL_TRY(KEEL_ACLNN(calls, Add, rows.sum, rows.most, Scalar{1}, distance));
  KEEL_TRY(KEEL_ACLNN(calls, Sub, distance, logsumexp, Scalar{1}, distance));
  // |distance| < 2^-17 |logsumexp| by their quotient: their squares would overflow. Below 64, where
  // the quotient may be NaN, the distance does not count.
  KEEL_TRY(KEEL_ACLNN(calls, Div, distance, logsumexp, distance));
  KEEL_TRY(exceeds(calls, distance, std::nextafter(0x1p-17f, 0.0f), temporaries, &is_far));
  KEEL_TRY(exceeds(calls, logsumexp, std::nextafter(64.0f, 0.0f), temporaries, &is_large));
  KEEL_TRY(KEEL_ACLNN(calls, SWhere, is_far, logsumexp, rows.most, *out_first));
  KEEL_TRY(KEEL_ACLNN(calls, SWhere, is_large, *out_first, logsumexp, *out_first));
  KEEL_TRY(KEEL_ACLNN(calls, SWhere, is_far, zero, rows.sum, *out_second));
  return KEEL_ACLNN(calls, SWhere, is_large, *out_second, zero, *out_second);
}

// Writes scale * (|p| - (j == labels[i] - first)) to |dlogits|, and 0 to the rows where
// |is_ignored|. Takes a temporary of the shape of |p|, four of the shape of |labels|, two
// constants.
keel_status subtract_targets(OperatorCalls& calls, const View& p, const View& labels, int64_t first,
                             const View* is_ignored, double scale, Temporaries* temporaries,
                             const View& dlogits) {
  View label;
  View outside;
  View zero;
  View minus_one;
  const View result = temporaries->take(ACL_FLOAT, p);
  KEEL_TRY(check_indices(calls, labels, first, p.dims[1], temporaries, &label, &outside));
  KEEL_TRY(constant(calls, ACL_FLOAT, 0, 2, temporaries, &zero));
  KEEL_TRY(constant(calls, ACL_FLOAT, -1, 2, temporaries, &minus_one));
  const View term = temporaries->take(ACL_FLOAT, labels);
  KEEL_TRY(KEEL_ACLNN(calls, SWhere, outside, zero, minus_one, term));
  KEEL_TRY(KEEL_ACLNN(calls, ScatterAdd, p, int64_t{1}, label, term, result));
  KEEL_TRY(KEEL_ACLNN(calls, Muls, result, Scalar{scale}, result));
  const View& ignored = is_ignored == nullptr ? outside : *is_ignored;
  KEEL_TRY(KEEL_ACLNN(calls, SWhere, ignored, zero, result, wide_of(dlogits, result)));
  return narrow(calls, result, dlogits);
}

keel_status run_cross_entropy_backward(OperatorCalls& calls, const keel_op_call& call,
                                       Temporaries temporaries) {
  const double scale = kit::attributes<keel_op_cross_entropy_backward_attributes>(call).scale;
  View x;
  View first;
  View second;
  KEEL_TRY(widen(calls, view_of(input(call, 0)), &temporaries, &x));
  KEEL_TRY(split_logarithm(calls, x, with_last_axis(view_of(input(call, 2))), &temporaries, &first,
                           &second));
  const View p = temporaries.take(ACL_FLOAT, x);
  KEEL_TRY(KEEL_ACLNN(calls, Sub, x, first, Scalar{1}, p));
  KEEL_TRY(KEEL_ACLNN(calls, Sub, p, second, Scalar{1}, p));
  KEEL_TRY(KEEL_ACLNN(calls, Exp, p, p));
  return subtract_targets(calls, p, with_last_axis(view_of(input(call, 1))), /*first=*/0,
                          /*is_ignored=*/nullptr, scale, &temporaries, view_of(output(call, 0)));
}

// ---- cross entropy by shards -----------------------------------------------------------

bool supports_cross_entropy_shard(const Functions& functions, const keel_op_call& call) {
  return supports_rows(functions, call) && functions.aclnnGather != nullptr &&
         functions.aclnnNeTensor != nullptr;
}

// The logits in float32, where they are NaN, their powers and largest, four values for each row,
// two constants.
uint64_t cross_entropy_shard_workspace(const keel_op_call& call) {
  return temporaries_like(input(call, 0), 4) + temporaries_like(input(call, 1), 4) +
         2 * Temporaries::rounded(4);
}

// The maximum overlooks NaN, the sum does not.
keel_status run_cross_entropy_shard(OperatorCalls& calls, const keel_op_call& call,
                                    Temporaries temporaries) {
  const int64_t first = kit::attributes<keel_op_cross_entropy_shard_attributes>(call).first;
  const View most = with_last_axis(view_of(output(call, 0)));
  View x;
  View lowest;
  View zero;
  View label;
  View outside;
  KEEL_TRY(widen(calls, view_of(input(call, 0)), &temporaries, &x));
  const View is_nan = temporaries.take(ACL_BOOL, x, /*element_bytes=*/4);
  const View powers = temporaries.take(ACL_FLOAT, x);
  const View finite_most = temporaries.take(ACL_FLOAT, reduced(x));
  KEEL_TRY(constant(calls, ACL_FLOAT, -HUGE_VAL, 2, &temporaries, &lowest));
  KEEL_TRY(constant(calls, ACL_FLOAT, 0, 2, &temporaries, &zero));
  KEEL_TRY(KEEL_ACLNN(calls, NeTensor, x, x, is_nan));
  KEEL_TRY(KEEL_ACLNN(calls, SWhere, is_nan, lowest, x, powers));
  KEEL_TRY(KEEL_ACLNN(calls, Amax, powers, kLastOfTwo, /*keepDim=*/true, most));
  // A row of minus infinities then gives no NaN; one with plus infinity does.
  KEEL_TRY(KEEL_ACLNN(calls, Clamp, most, Scalar{-FLT_MAX}, Scalar{HUGE_VAL}, finite_most));
  KEEL_TRY(KEEL_ACLNN(calls, Sub, x, finite_most, Scalar{1}, powers));
  KEEL_TRY(KEEL_ACLNN(calls, Exp, powers, powers));
  KEEL_TRY(KEEL_ACLNN(calls, ReduceSum, powers, kLastOfTwo, /*keepDims=*/true, ACL_FLOAT,
                      with_last_axis(view_of(output(call, 1)))));
  KEEL_TRY(check_indices(calls, with_last_axis(view_of(input(call, 1))), first, x.dims[1],
                         &temporaries, &label, &outside));
  const View target = temporaries.take(ACL_FLOAT, label);
  KEEL_TRY(KEEL_ACLNN(calls, Gather, x, int64_t{1}, label, target));
  return KEEL_ACLNN(calls, SWhere, outside, zero, target, with_last_axis(view_of(output(call, 2))));
}

bool supports_cross_entropy_shard_backward(const Functions& functions, const keel_op_call& call) {
  return supports_powers(functions, call) && functions.aclnnMuls != nullptr &&
         functions.aclnnScatterAdd != nullptr;
}

// The logits in float32, p and the result, six values for each row, two constants.
uint64_t cross_entropy_shard_backward_workspace(const keel_op_call& call) {
  return temporaries_like(input(call, 0), 3) + temporaries_like(input(call, 1), 6) +
         2 * Temporaries::rounded(4);
}

keel_status run_cross_entropy_shard_backward(OperatorCalls& calls, const keel_op_call& call,
                                             Temporaries temporaries) {
  const auto a = kit::attributes<keel_op_cross_entropy_shard_backward_attributes>(call);
  const View labels = with_last_axis(view_of(input(call, 1)));
  View x;
  KEEL_TRY(widen(calls, view_of(input(call, 0)), &temporaries, &x));
  const View p = temporaries.take(ACL_FLOAT, x);
  const View negative = temporaries.take(ACL_INT32, labels);
  const View is_ignored = temporaries.take(ACL_BOOL, labels, /*element_bytes=*/4);
  KEEL_TRY(KEEL_ACLNN(calls, Clamp, labels, whole(-1), whole(0), negative));
  KEEL_TRY(KEEL_ACLNN(calls, Cast, negative, ACL_BOOL, is_ignored));
  KEEL_TRY(KEEL_ACLNN(calls, Sub, x, with_last_axis(view_of(input(call, 2))), Scalar{1}, p));
  KEEL_TRY(KEEL_ACLNN(calls, Exp, p, p));
  return subtract_targets(calls, p, labels, a.first, &is_ignored, a.scale, &temporaries,
                          view_of(output(call, 0)));
}

// ---- the norm of gradients -------------------------------------------------------------

bool supports_sum_of_squares(const Functions& functions, const keel_op_call& call) {
  return are_plain(call) && input(call, 0).rank != 0 && functions.aclnnMul != nullptr &&
         functions.aclnnMuls != nullptr && functions.aclnnReduceSum != nullptr &&
         functions.aclnnNeTensor != nullptr;
}

// x in float32, its squares, a value and whether it is NaN.
uint64_t sum_of_squares_workspace(const keel_op_call& call) {
  return temporaries_like(input(call, 0), 2) + 2 * Temporaries::rounded(4);
}

Ints all_axes(const View& view) {
  Ints axes;
  axes.size = view.rank;
  for (uint32_t axis = 0; axis < view.rank; ++axis) axes.values[axis] = axis;
  return axes;
}

// Finds what is not finite by 0 * x: 0, or NaN.
keel_status run_sum_of_squares(OperatorCalls& calls, const keel_op_call& call,
                               Temporaries temporaries) {
  const View total = view_of(output(call, 0));
  View x;
  KEEL_TRY(widen(calls, view_of(input(call, 0)), &temporaries, &x));
  const View terms = temporaries.take(ACL_FLOAT, x);
  const View nothing = temporaries.take(ACL_FLOAT, total);
  const View is_bad = temporaries.take(ACL_BOOL, total, /*element_bytes=*/4);
  const Ints axes = all_axes(x);
  KEEL_TRY(KEEL_ACLNN(calls, Muls, x, Scalar{0}, terms));
  KEEL_TRY(KEEL_ACLNN(calls, ReduceSum, terms, axes, /*keepDims=*/false, ACL_FLOAT, nothing));
  if (has_input(call, 1)) {
    KEEL_TRY(KEEL_ACLNN(calls, Add, nothing, view_of(input(call, 1)), Scalar{0}, nothing));
  }
  KEEL_TRY(KEEL_ACLNN(calls, NeTensor, nothing, nothing, is_bad));
  KEEL_TRY(KEEL_ACLNN(calls, Cast, is_bad, ACL_INT32, view_of(output(call, 1))));
  KEEL_TRY(KEEL_ACLNN(calls, Mul, x, x, terms));
  if (!has_input(call, 1)) {
    return KEEL_ACLNN(calls, ReduceSum, terms, axes, /*keepDims=*/false, ACL_FLOAT, total);
  }
  KEEL_TRY(KEEL_ACLNN(calls, ReduceSum, terms, axes, /*keepDims=*/false, ACL_FLOAT, nothing));
  return KEEL_ACLNN(calls, Add, view_of(input(call, 1)), nothing, Scalar{1}, total);
}

bool supports_clip(const Functions& functions, const keel_op_call& call) {
  return are_plain(call) && functions.aclnnSqrt != nullptr && functions.aclnnAdds != nullptr &&
         functions.aclnnDiv != nullptr && functions.aclnnClamp != nullptr &&
         functions.aclnnMul != nullptr;
}

// g in float32, the factor, the largest norm.
uint64_t clip_workspace(const keel_op_call& call) {
  return temporaries_like(input(call, 0), 1) + 2 * Temporaries::rounded(4);
}

keel_status run_clip(OperatorCalls& calls, const keel_op_call& call, Temporaries temporaries) {
  const double max_norm = kit::attributes<keel_op_clip_attributes>(call).max_norm;
  const View squares = view_of(input(call, 1));
  const View out = view_of(output(call, 0));
  View g;
  View largest;
  KEEL_TRY(widen(calls, view_of(input(call, 0)), &temporaries, &g));
  KEEL_TRY(constant(calls, ACL_FLOAT, max_norm, 0, &temporaries, &largest));
  const View factor = temporaries.take(ACL_FLOAT, squares);
  KEEL_TRY(KEEL_ACLNN(calls, Sqrt, squares, factor));
  KEEL_TRY(KEEL_ACLNN(calls, Adds, factor, Scalar{1e-6}, Scalar{1}, factor));
  KEEL_TRY(KEEL_ACLNN(calls, Div, largest, factor, factor));
  KEEL_TRY(KEEL_ACLNN(calls, Clamp, factor, Scalar{0}, Scalar{1}, factor));
  KEEL_TRY(KEEL_ACLNN(calls, Mul, g, factor, wide_of(out, g)));
  return narrow(calls, g, out);
}

}  // namespace

const Op kCrossEntropy = {"aclnn.amax+exp+log+gather", KEEL_OP_COMPOSED, supports_cross_entropy,
                          cross_entropy_workspace, run_cross_entropy};
const Op kCrossEntropyBackward = {"aclnn.exp+scatter_add", KEEL_OP_COMPOSED,
                                  supports_cross_entropy_backward, cross_entropy_backward_workspace,
                                  run_cross_entropy_backward};
const Op kCrossEntropyShard = {"aclnn.amax+exp+gather", KEEL_OP_COMPOSED,
                               supports_cross_entropy_shard, cross_entropy_shard_workspace,
                               run_cross_entropy_shard};
const Op kCrossEntropyShardBackward = {
    "aclnn.exp+scatter_add", KEEL_OP_COMPOSED, supports_cross_entropy_shard_backward,
    cross_entropy_shard_backward_workspace, run_cross_entropy_shard_backward};
const Op kSumOfSquares = {"aclnn.mul+reduce_sum", KEEL_OP_COMPOSED, supports_sum_of_squares,
                          sum_of_squares_workspace, run_sum_of_squares};
const Op kClip = {"aclnn.sqrt+div+mul", KEEL_OP_COMPOSED, supports_clip, clip_workspace, run_clip};

}  // namespace keel::ascend
