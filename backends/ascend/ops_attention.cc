// SPDX-License-Identifier: Apache-2.0
// attention and its gradient by the vendor's flash attention; attention_merge. Sequences of several
// lengths are left to the fallback: the library takes their ends on the host, Keel has them on the
// device. So are calls with a mask, which the library takes in the dtype of q alone, and calls with
// dropout, of which the library draws other elements than Keel.
#include <cfloat>
#include <cmath>

#include "backends/ascend/ops.h"
#include "backends/ascend/types.h"

namespace keel::ascend {
namespace {

constexpr int64_t kMostHeads = 256;
constexpr int64_t kMostTokens = 1 << 20;
constexpr Text kLayout = {"BSND"};

// A causal query with fewer keys than queries before it would see none, of which the vendor's
// documents say nothing.
template <typename Attributes>
bool supports_heads(const Functions& functions, const keel_op_call& call, uint32_t lengths) {
  for (uint32_t i = lengths; i < lengths + 3; ++i) {
    if (has_input(call, i)) return false;
  }
  if (!are_plain(call)) return false;
  const keel_tensor& q = input(call, 0);
  const keel_tensor& k = input(call, 1);
  if (q.shape[1] > kMostHeads || q.shape[0] > kMostTokens || k.shape[0] > kMostTokens ||
      functions.aclnnLeScalar == nullptr || functions.aclnnSWhere == nullptr) {
    return false;
  }
  const auto attributes = kit::attributes<Attributes>(call);
  if (attributes.p != 0) return false;
  return attributes.causal == 0 || (q.shape[0] <= k.shape[0] && functions.aclnnTriu != nullptr);
}

// The mask and its mode, the same for both operators.
struct Mode {
  View mask = absent();
  int64_t sparse = ACLNN_SPARSE_DEFAULT;
};

keel_status mode_of(OperatorCalls& calls, bool is_causal, Mode* out_mode) {
  if (!is_causal) return KEEL_OK;
  out_mode->sparse = ACLNN_SPARSE_RIGHT_DOWN_CAUSAL;
  return calls.causal_mask(&out_mode->mask);
}

// [heads,tokens,8], in which the library keeps the maxima and sums of the rows.
View row_values(const keel_op_call& call, Temporaries* temporaries) {
  const keel_tensor& q = input(call, 0);
  return temporaries->take(
      ACL_FLOAT, dense(nullptr, ACL_FLOAT, {q.shape[1], q.shape[0], ACLNN_SOFTMAX_COPIES}));
}

uint64_t row_values_size(const keel_op_call& call) {
  const keel_tensor& q = input(call, 0);
  return Temporaries::rounded(
      static_cast<uint64_t>(4 * ACLNN_SOFTMAX_COPIES * q.shape[0] * q.shape[1]));
}

// The first of each row's values: [heads,tokens].
View first_of(View values) {
  --values.rank;
  return values;
}

// [tokens,heads,1] of [heads,tokens].
View by_tokens(const View& view) {
  return with_last_axis(transposed(view));
}

bool supports_attention(const Functions& functions, const keel_op_call& call) {
  return functions.aclnnFlashAttentionScore != nullptr && functions.aclnnLog != nullptr &&
         supports_heads<keel_op_attention_attributes>(functions, call, 3);
}

// The maxima and sums, the logarithms, which rows see nothing, two constants.
uint64_t attention_workspace(const keel_op_call& call) {
  return 2 * row_values_size(call) + temporaries_like(output(call, 1), 2) +
         2 * Temporaries::rounded(4);
}

keel_status run_attention(OperatorCalls& calls, const keel_op_call& call, Temporaries temporaries) {
  const auto a = kit::attributes<keel_op_attention_attributes>(call);
  const View q = view_of(input(call, 0));
  const View out = view_of(output(call, 0));
  const View logsumexp = view_of(output(call, 1));
  const View most = row_values(call, &temporaries);
  const View sum = row_values(call, &temporaries);
  const View logarithm = temporaries.take(ACL_FLOAT, logsumexp);
  const View is_empty = temporaries.take(ACL_BOOL, logsumexp, /*element_bytes=*/4);
  View lowest;
  View zero;
  Mode mode;
  KEEL_TRY(mode_of(calls, a.causal != 0, &mode));
  KEEL_TRY(KEEL_ACLNN(
      calls, FlashAttentionScore, with_first_axis(q), with_first_axis(view_of(input(call, 1))),
      with_first_axis(view_of(input(call, 2))), /*realShift=*/absent(), /*dropMask=*/absent(),
      /*paddingMask=*/absent(), mode.mask, /*prefix=*/absent_ints(), a.scale, /*keepProb=*/1.0,
      /*preTokens=*/int64_t{INT32_MAX}, /*nextTokens=*/int64_t{INT32_MAX}, q.dims[1], kLayout,
      /*innerPrecise=*/int64_t{0}, mode.sparse, with_first_axis(most), with_first_axis(sum),
      /*softmaxOut=*/absent(), with_first_axis(out)));
  KEEL_TRY(KEEL_ACLNN(calls, Log, first_of(sum), logarithm));
  KEEL_TRY(KEEL_ACLNN(calls, Add, first_of(most), logarithm, Scalar{1}, logsumexp));
  // In a row of scores of minus infinity the library divides 0 by 0.
  KEEL_TRY(constant(calls, ACL_FLOAT, -HUGE_VAL, 2, &temporaries, &lowest));
  KEEL_TRY(constant(calls, static_cast<aclDataType>(out.type), 0, 3, &temporaries, &zero));
  KEEL_TRY(KEEL_ACLNN(calls, LeScalar, first_of(most), Scalar{-HUGE_VAL}, is_empty));
  KEEL_TRY(KEEL_ACLNN(calls, SWhere, is_empty, lowest, logsumexp, logsumexp));
  return KEEL_ACLNN(calls, SWhere, by_tokens(is_empty), zero, out, out);
}

bool supports_attention_backward(const Functions& functions, const keel_op_call& call) {
  return functions.aclnnFlashAttentionScoreGrad != nullptr &&
         functions.aclnnInplaceCopy != nullptr && functions.aclnnClamp != nullptr &&
         supports_heads<keel_op_attention_backward_attributes>(functions, call, 6);
}

// The maxima and sums, which rows see nothing and their logsumexp, q and dout without such rows,
// two constants.
uint64_t attention_backward_workspace(const keel_op_call& call) {
  return 2 * row_values_size(call) + temporaries_like(input(call, 5), 2) +
         temporaries_like(input(call, 0), 2) + 2 * Temporaries::rounded(4);
}

// exp(score - max) / sum with logsumexp as the maximum and a sum of 1. A row that sees nothing has
// a maximum far above all scores, so all of its probabilities are 0; the kernel still multiplies
// them by q, k and dout, and 0 times infinity is NaN. The row's q is therefore clamped to [-1,1],
// after which a score of minus infinity is that or finite; dout counts as 0, and dq is overwritten.
// A v that is not finite still makes dk NaN.
keel_status run_attention_backward(OperatorCalls& calls, const keel_op_call& call,
                                   Temporaries temporaries) {
  const auto a = kit::attributes<keel_op_attention_backward_attributes>(call);
  const View q = view_of(input(call, 0));
  const View dq = view_of(output(call, 0));
  const View logsumexp = view_of(input(call, 5));
  const auto type = static_cast<aclDataType>(q.type);
  const View most = row_values(call, &temporaries);
  const View sum = row_values(call, &temporaries);
  const View is_empty = temporaries.take(ACL_BOOL, logsumexp, /*element_bytes=*/4);
  const View offset = temporaries.take(ACL_FLOAT, logsumexp);
  const View queries = temporaries.take(type, q);
  const View dout = temporaries.take(type, q);
  View highest;
  View zero;
  Mode mode;
  KEEL_TRY(mode_of(calls, a.causal != 0, &mode));
  KEEL_TRY(constant(calls, ACL_FLOAT, FLT_MAX, 2, &temporaries, &highest));
  KEEL_TRY(constant(calls, type, 0, 3, &temporaries, &zero));
  KEEL_TRY(KEEL_ACLNN(calls, LeScalar, logsumexp, Scalar{-HUGE_VAL}, is_empty));
  KEEL_TRY(KEEL_ACLNN(calls, SWhere, is_empty, highest, logsumexp, offset));
  KEEL_TRY(KEEL_ACLNN(calls, InplaceCopy, most, with_last_axis(offset)));
  KEEL_TRY(KEEL_ACLNN(calls, InplaceFillScalar, sum, Scalar{1}));
  KEEL_TRY(KEEL_ACLNN(calls, Clamp, q, Scalar{-1}, Scalar{1}, queries));
  KEEL_TRY(KEEL_ACLNN(calls, SWhere, by_tokens(is_empty), queries, q, queries));
  KEEL_TRY(KEEL_ACLNN(calls, SWhere, by_tokens(is_empty), zero, view_of(input(call, 4)), dout));
  KEEL_TRY(KEEL_ACLNN(
      calls, FlashAttentionScoreGrad, with_first_axis(queries),
      with_first_axis(view_of(input(call, 1))), with_first_axis(view_of(input(call, 2))),
      with_first_axis(dout), /*pseShift=*/absent(), /*dropMask=*/absent(),
      /*paddingMask=*/absent(), mode.mask, with_first_axis(most), with_first_axis(sum),
      /*softmaxIn=*/absent(), with_first_axis(view_of(input(call, 3))), /*prefix=*/absent_ints(),
      a.scale, /*keepProb=*/1.0, /*preTokens=*/int64_t{INT32_MAX},
      /*nextTokens=*/int64_t{INT32_MAX}, q.dims[1], kLayout, /*innerPrecise=*/int64_t{0},
      mode.sparse, with_first_axis(dq), with_first_axis(view_of(output(call, 1))),
      with_first_axis(view_of(output(call, 2))), /*dpse=*/absent()));
  return KEEL_ACLNN(calls, SWhere, by_tokens(is_empty), zero, dq, dq);
}

bool supports_attention_merge(const Functions& functions, const keel_op_call& call) {
  return are_plain(call) && functions.aclnnLtTensor != nullptr &&
         functions.aclnnLeScalar != nullptr && functions.aclnnSWhere != nullptr &&
         functions.aclnnClamp != nullptr && functions.aclnnSub != nullptr &&
         functions.aclnnExp != nullptr && functions.aclnnLog != nullptr &&
         functions.aclnnDiv != nullptr && functions.aclnnMul != nullptr;
}

// The outputs by their weights, eight values for each row, a zero.
uint64_t attention_merge_workspace(const keel_op_call& call) {
  return temporaries_like(input(call, 0), 2) + temporaries_like(input(call, 1), 8) +
         Temporaries::rounded(4);
}

// With m the larger logsumexp, the weights are exp(lse - m) over their sum, which is at least 1.
keel_status run_attention_merge(OperatorCalls& calls, const keel_op_call& call,
                                Temporaries temporaries) {
  const View logsumexp = view_of(output(call, 1));
  const View lse[] = {view_of(input(call, 1)), view_of(input(call, 3))};
  const View is_less = temporaries.take(ACL_BOOL, logsumexp, /*element_bytes=*/4);
  const View most = temporaries.take(ACL_FLOAT, logsumexp);
  const View sum = temporaries.take(ACL_FLOAT, logsumexp);
  const View logarithm = temporaries.take(ACL_FLOAT, logsumexp);
  View zero;
  View is_empty[2];
  View weights[2];
  View terms[2];
  KEEL_TRY(constant(calls, ACL_FLOAT, 0, 3, &temporaries, &zero));
  KEEL_TRY(KEEL_ACLNN(calls, LtTensor, lse[0], lse[1], is_less));
  KEEL_TRY(KEEL_ACLNN(calls, SWhere, is_less, lse[1], lse[0], most));
  // Two sides that see nothing then have weights of 0, not NaN.
  KEEL_TRY(KEEL_ACLNN(calls, Clamp, most, Scalar{-FLT_MAX}, Scalar{HUGE_VAL}, most));
  for (uint32_t side = 0; side < 2; ++side) {
    is_empty[side] = temporaries.take(ACL_BOOL, logsumexp, /*element_bytes=*/4);
    weights[side] = temporaries.take(ACL_FLOAT, logsumexp);
    KEEL_TRY(KEEL_ACLNN(calls, LeScalar, lse[side], Scalar{-HUGE_VAL}, is_empty[side]));
    KEEL_TRY(KEEL_ACLNN(calls, Sub, lse[side], most, Scalar{1}, weights[side]));
    KEEL_TRY(KEEL_ACLNN(calls, Exp, weights[side], weights[side]));
  }
  KEEL_TRY(KEEL_ACLNN(calls, Add, weights[0], weights[1], Scalar{1}, sum));
  KEEL_TRY(KEEL_ACLNN(calls, Log, sum, logarithm));
  KEEL_TRY(KEEL_ACLNN(calls, Add, most, logarithm, Scalar{1}, logsumexp));
  KEEL_TRY(KEEL_ACLNN(calls, Clamp, sum, Scalar{0.5}, Scalar{HUGE_VAL}, sum));
  for (uint32_t side = 0; side < 2; ++side) {
    const View out = view_of(input(call, 2 * side));
    terms[side] = temporaries.take(ACL_FLOAT, out);
    KEEL_TRY(KEEL_ACLNN(calls, Div, weights[side], sum, weights[side]));
    KEEL_TRY(KEEL_ACLNN(calls, Mul, out, by_tokens(weights[side]), terms[side]));
    KEEL_TRY(KEEL_ACLNN(calls, SWhere, by_tokens(is_empty[side]), zero, terms[side], terms[side]));
  }
  return KEEL_ACLNN(calls, Add, terms[0], terms[1], Scalar{1}, view_of(output(call, 0)));
}

}  // namespace

const Op kAttention = {"aclnn.flash_attention_score", KEEL_OP_NATIVE, supports_attention,
                       attention_workspace, run_attention};
const Op kAttentionBackward = {
    "aclnn.flash_attention_score_grad", KEEL_OP_NATIVE,         supports_attention_backward,
    attention_backward_workspace,       run_attention_backward, always};

const Op kAttentionMerge = {"aclnn.exp+log+div+mul", KEEL_OP_COMPOSED, supports_attention_merge,
                            attention_merge_workspace, run_attention_merge};

}  // namespace keel::ascend
