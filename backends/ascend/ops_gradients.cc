// SPDX-License-Identifier: Apache-2.0
// Gradients of gelu, swiglu, softmax, norms, embedding and clamp.
#include <cmath>

#include "backends/ascend/ops.h"
#include "backends/ascend/types.h"

namespace keel::ascend {
namespace {

// ---- gelu ------------------------------------------------------------------------------

Text form_of(int64_t form) {
  return {form == KEEL_GELU_FORM_TANH ? "tanh" : "none"};
}

bool supports_gelu_backward(const Functions& functions, const keel_op_call& call) {
  return functions.aclnnGeluBackwardV2 != nullptr && are_plain(call);
}

keel_status run_gelu_backward(OperatorCalls& calls, const keel_op_call& call,
                              Temporaries /*none*/) {
  return KEEL_ACLNN(calls, GeluBackwardV2, view_of(input(call, 1)), view_of(input(call, 0)),
                    form_of(kit::attributes<keel_op_gelu_backward_attributes>(call).form),
                    view_of(output(call, 0)));
}

// x, bias, their sum and dy in float32.
uint64_t bias_gelu_backward_workspace(const keel_op_call& call) {
  return temporaries_like(input(call, 0), 3) +
         (has_input(call, 1) ? temporaries_like(input(call, 1), 1) : 0);
}

keel_status run_bias_gelu_backward(OperatorCalls& calls, const keel_op_call& call,
                                   Temporaries temporaries) {
  const Text form = form_of(kit::attributes<keel_op_bias_gelu_backward_attributes>(call).form);
  const View dy = view_of(input(call, 2));
  const View dx = view_of(output(call, 0));
  if (!has_input(call, 1)) {
    return KEEL_ACLNN(calls, GeluBackwardV2, dy, view_of(input(call, 0)), form, dx);
  }
  View sum;
  View wide_dy;
  KEEL_TRY(add_bias(calls, view_of(input(call, 0)), view_of(input(call, 1)), &temporaries, &sum));
  KEEL_TRY(widen(calls, dy, &temporaries, &wide_dy));
  KEEL_TRY(KEEL_ACLNN(calls, GeluBackwardV2, wide_dy, sum, form, wide_of(dx, wide_dy)));
  return narrow(calls, wide_dy, dx);
}

// ---- swiglu, softmax -------------------------------------------------------------------

// dy and dx without gaps, as the library demands of this operator.
bool supports_swiglu_backward(const Functions& functions, const keel_op_call& call) {
  return functions.aclnnSwiGluGrad != nullptr && are_plain(call) &&
         kit::is_contiguous(input(call, 1)) && kit::is_contiguous(output(call, 0));
}

keel_status run_swiglu_backward(OperatorCalls& calls, const keel_op_call& call,
                                Temporaries /*none*/) {
  return KEEL_ACLNN(calls, SwiGluGrad, view_of(input(call, 1)), view_of(input(call, 0)),
                    int64_t{-1}, view_of(output(call, 0)));
}

bool supports_softmax_backward(const Functions& functions, const keel_op_call& call) {
  return functions.aclnnSoftmaxBackward != nullptr && functions.aclnnMuls != nullptr &&
         are_plain(call) && input(call, 0).rank != 0;
}

// y and dy in float32, so that a factor is applied before the result is rounded.
uint64_t softmax_backward_workspace(const keel_op_call& call) {
  return temporaries_like(input(call, 0), 2);
}

keel_status run_softmax_backward(OperatorCalls& calls, const keel_op_call& call,
                                 Temporaries temporaries) {
  const double scale = kit::attributes<keel_op_softmax_backward_attributes>(call).scale;
  View y = view_of(input(call, 0));
  View dy = view_of(input(call, 1));
  const View dx = view_of(output(call, 0));
  if (scale == 1) return KEEL_ACLNN(calls, SoftmaxBackward, dy, y, int64_t{-1}, dx);
  KEEL_TRY(widen(calls, y, &temporaries, &y));
  KEEL_TRY(widen(calls, dy, &temporaries, &dy));
  const View wide_dx = wide_of(dx, dy);
  KEEL_TRY(KEEL_ACLNN(calls, SoftmaxBackward, dy, y, int64_t{-1}, wide_dx));
  KEEL_TRY(KEEL_ACLNN(calls, Muls, wide_dx, Scalar{scale}, wide_dx));
  return narrow(calls, wide_dx, dx);
}

// ---- norms -----------------------------------------------------------------------------

// A kernel that writes dx may read dy once more for the sums over the rows, so a dx in the place of
// dy is made beside it.
bool has_dx_beside(const keel_op_call& call) {
  return kit::first_element(input(call, 0)) == kit::first_element(output(call, 0));
}

// gamma in float32, since dgamma has its dtype; dx.
uint64_t norm_backward_workspace(const keel_op_call& call) {
  return temporaries_like(input(call, 2), 1) +
         (has_dx_beside(call) ? temporaries_like(output(call, 0), 1) : 0);
}

View dx_of(const keel_op_call& call, Temporaries* temporaries) {
  const View dx = view_of(output(call, 0));
  return has_dx_beside(call) ? temporaries->take(static_cast<aclDataType>(dx.type), dx) : dx;
}

keel_status give_dx(OperatorCalls& calls, const keel_op_call& call, const View& dx) {
  if (!has_dx_beside(call)) return KEEL_OK;
  return KEEL_ACLNN(calls, InplaceCopy, view_of(output(call, 0)), dx);
}

bool supports_layer_norm_backward(const Functions& functions, const keel_op_call& call) {
  return functions.aclnnLayerNormBackward != nullptr && functions.aclnnInplaceCopy != nullptr &&
         functions.aclCreateBoolArray != nullptr && functions.aclDestroyBoolArray != nullptr &&
         are_plain(call) && input(call, 0).rank < KEEL_MAX_RANK;
}

keel_status run_layer_norm_backward(OperatorCalls& calls, const keel_op_call& call,
                                    Temporaries temporaries) {
  const View x = view_of(input(call, 1));
  View gamma;
  KEEL_TRY(widen(calls, view_of(input(call, 2)), &temporaries, &gamma));
  const View dx = dx_of(call, &temporaries);
  const Ints normalized = {{x.dims[x.rank - 1]}, 1};
  KEEL_TRY(KEEL_ACLNN(
      calls, LayerNormBackward, view_of(input(call, 0)), x, normalized,
      with_last_axis(view_of(input(call, 3))), with_last_axis(view_of(input(call, 4))), gamma,
      absent(), Flags{{true, true, true}}, dx, view_of(output(call, 1)), view_of(output(call, 2))));
  return give_dx(calls, call, dx);
}

bool supports_rms_norm_backward(const Functions& functions, const keel_op_call& call) {
  return functions.aclnnRmsNormGrad != nullptr && functions.aclnnInplaceCopy != nullptr &&
         are_plain(call);
}

keel_status run_rms_norm_backward(OperatorCalls& calls, const keel_op_call& call,
                                  Temporaries temporaries) {
  View gamma;
  KEEL_TRY(widen(calls, view_of(input(call, 2)), &temporaries, &gamma));
  const View dx = dx_of(call, &temporaries);
  // The library's gradients have two axes or more.
  const bool is_row = dx.rank == 1;
  const auto matrix = [&](const View& view) { return is_row ? with_first_axis(view) : view; };
  KEEL_TRY(KEEL_ACLNN(calls, RmsNormGrad, matrix(view_of(input(call, 0))),
                      matrix(view_of(input(call, 1))), matrix(view_of(input(call, 3))), gamma,
                      matrix(dx), view_of(output(call, 1))));
  return give_dx(calls, call, dx);
}

// ---- embedding -------------------------------------------------------------------------

bool supports_embedding_backward(const Functions& functions, const keel_op_call& call) {
  return functions.aclnnEmbeddingDenseBackward != nullptr && has_checked_indices(functions) &&
         are_plain(call);
}

// Rows of dout in float32, three values for each index, and a zero.
uint64_t embedding_backward_workspace(const keel_op_call& call) {
  return temporaries_like(input(call, 0), 1) + temporaries_like(input(call, 1), 3) +
         Temporaries::rounded(4);
}

// A row with an index outside of the table is added as zeroes to the table's row next to it.
keel_status run_embedding_backward(OperatorCalls& calls, const keel_op_call& call,
                                   Temporaries temporaries) {
  const View dout = view_of(input(call, 0));
  const View indices = view_of(input(call, 1));
  const View dtable = view_of(output(call, 0));
  const int64_t first = kit::attributes<keel_op_embedding_backward_attributes>(call).first;
  const View rows = temporaries.take(ACL_FLOAT, dout);
  View valid;
  View outside;
  View zero;
  KEEL_TRY(check_indices(calls, indices, first, dtable.dims[0], &temporaries, &valid, &outside));
  KEEL_TRY(constant(calls, ACL_FLOAT, 0, 2, &temporaries, &zero));
  View wide = dout;
  if (dout.type != ACL_FLOAT) {
    KEEL_TRY(KEEL_ACLNN(calls, Cast, dout, ACL_FLOAT, rows));
    wide = rows;
  }
  KEEL_TRY(KEEL_ACLNN(calls, SWhere, with_last_axis(outside), zero, wide, rows));
  constexpr auto kNoPadding = static_cast<uint64_t>(int64_t{-1});
  return KEEL_ACLNN(calls, EmbeddingDenseBackward, rows, valid,
                    static_cast<uint64_t>(dtable.dims[0]), kNoPadding,
                    /*scaleGradByFreq=*/false, dtable);
}

// ---- clamp -----------------------------------------------------------------------------

bool supports_clamp_backward(const Functions& functions, const keel_op_call& call) {
  return functions.aclnnGeScalar != nullptr && functions.aclnnLeScalar != nullptr &&
         functions.aclnnSWhere != nullptr && are_plain(call);
}

// x in float32, where it is inside, and a zero.
uint64_t clamp_backward_workspace(const keel_op_call& call) {
  return temporaries_like(input(call, 0), 2) + Temporaries::rounded(4);
}

keel_status run_clamp_backward(OperatorCalls& calls, const keel_op_call& call,
                               Temporaries temporaries) {
  const auto bounds = kit::attributes<keel_op_clamp_backward_attributes>(call);
  const View dy = view_of(input(call, 1));
  const View dx = view_of(output(call, 0));
  View x;
  View zero;
  KEEL_TRY(widen(calls, view_of(input(call, 0)), &temporaries, &x));
  const View inside = temporaries.take(ACL_BOOL, x, /*element_bytes=*/4);
  KEEL_TRY(constant(calls, static_cast<aclDataType>(dx.type), 0, dx.rank, &temporaries, &zero));
  const double least = std::isnan(bounds.min) ? -HUGE_VAL : bounds.min;
  const double most = std::isnan(bounds.max) ? HUGE_VAL : bounds.max;
  KEEL_TRY(KEEL_ACLNN(calls, GeScalar, x, Scalar{least}, inside));
  KEEL_TRY(KEEL_ACLNN(calls, SWhere, inside, dy, zero, dx));
  KEEL_TRY(KEEL_ACLNN(calls, LeScalar, x, Scalar{most}, inside));
  return KEEL_ACLNN(calls, SWhere, inside, dx, zero, dx);
}

}  // namespace

const Op kGeluBackward = {"aclnn.gelu_backward_v2", KEEL_OP_NATIVE, supports_gelu_backward, nullptr,
                          run_gelu_backward};
const Op kBiasGeluBackward = {"aclnn.add+gelu_backward_v2", KEEL_OP_COMPOSED,
                              supports_gelu_backward, bias_gelu_backward_workspace,
                              run_bias_gelu_backward};
const Op kSwigluBackward = {"aclnn.swiglu_grad", KEEL_OP_NATIVE, supports_swiglu_backward, nullptr,
                            run_swiglu_backward};
const Op kSoftmaxBackward = {"aclnn.softmax_backward", KEEL_OP_NATIVE, supports_softmax_backward,
                             softmax_backward_workspace, run_softmax_backward};
const Op kLayerNormBackward = {"aclnn.layer_norm_backward", KEEL_OP_NATIVE,
                               supports_layer_norm_backward, norm_backward_workspace,
                               run_layer_norm_backward};
const Op kRmsNormBackward = {"aclnn.rms_norm_grad",      KEEL_OP_NATIVE,
                             supports_rms_norm_backward, norm_backward_workspace,
                             run_rms_norm_backward,      always};
const Op kEmbeddingBackward = {
    "aclnn.where+embedding_dense_backward", KEEL_OP_COMPOSED,       supports_embedding_backward,
    embedding_backward_workspace,           run_embedding_backward, always};
const Op kClampBackward = {"aclnn.ge+le+where", KEEL_OP_COMPOSED, supports_clamp_backward,
                           clamp_backward_workspace, run_clamp_backward};

}  // namespace keel::ascend
