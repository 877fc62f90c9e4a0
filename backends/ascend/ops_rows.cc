// SPDX-License-Identifier: Apache-2.0
// sum, softmax, norms, swiglu, embedding, rope.
#include <cfloat>
#include <cmath>

#include "backends/ascend/ops.h"
#include "backends/ascend/types.h"

namespace keel::ascend {
namespace {

// ---- sum, swiglu -----------------------------------------------------------------------

bool supports_sum(const Functions& functions, const keel_op_call& call) {
  return functions.aclnnReduceSum != nullptr && are_plain(call);
}

keel_status run_sum(OperatorCalls& calls, const keel_op_call& call, Temporaries /*none*/) {
  const int64_t axis = kit::attributes<keel_op_sum_attributes>(call).axis;
  const keel_tensor& y = output(call, 0);
  Ints axes;
  if (axis == -1) {
    axes = {{0, 1}, 2};
  } else {
    axes = {{axis}, 1};
  }
  return KEEL_ACLNN(calls, ReduceSum, view_of(input(call, 0)), axes, /*keepDims=*/false,
                    type_of(y.dtype), view_of(y));
}

// Without gaps, as the library demands of this operator.
bool supports_swiglu(const Functions& functions, const keel_op_call& call) {
  return functions.aclnnSwiGlu != nullptr && are_plain(call) &&
         kit::is_contiguous(input(call, 0)) && kit::is_contiguous(output(call, 0));
}

keel_status run_swiglu(OperatorCalls& calls, const keel_op_call& call, Temporaries /*none*/) {
  return KEEL_ACLNN(calls, SwiGlu, view_of(input(call, 0)), int64_t{-1}, view_of(output(call, 0)));
}

// ---- norms -----------------------------------------------------------------------------

Ints last_extent(const keel_tensor& x) {
  return {{x.shape[x.rank - 1]}, 1};
}

// The statistics have an axis of extent 1 in the place of the normalized one.
bool supports_norm(const keel_op_call& call) {
  return are_plain(call) && input(call, 0).rank < KEEL_MAX_RANK;
}

bool supports_layer_norm(const Functions& functions, const keel_op_call& call) {
  return functions.aclnnLayerNorm != nullptr && supports_norm(call);
}

keel_status run_layer_norm(OperatorCalls& calls, const keel_op_call& call, Temporaries /*none*/) {
  const double eps = kit::attributes<keel_op_layer_norm_attributes>(call).eps;
  return KEEL_ACLNN(calls, LayerNorm, view_of(input(call, 0)), last_extent(input(call, 0)),
                    view_of(input(call, 1)),
                    has_input(call, 2) ? view_of(input(call, 2)) : absent(), eps,
                    view_of(output(call, 0)), with_last_axis(view_of(output(call, 1))),
                    with_last_axis(view_of(output(call, 2))));
}

bool supports_rms_norm(const Functions& functions, const keel_op_call& call) {
  return functions.aclnnRmsNorm != nullptr && supports_norm(call);
}

keel_status run_rms_norm(OperatorCalls& calls, const keel_op_call& call, Temporaries /*none*/) {
  const double eps = kit::attributes<keel_op_rms_norm_attributes>(call).eps;
  return KEEL_ACLNN(calls, RmsNorm, view_of(input(call, 0)), view_of(input(call, 1)), eps,
                    view_of(output(call, 0)), with_last_axis(view_of(output(call, 1))));
}

// ---- softmax ---------------------------------------------------------------------------

// Composed: Keel's softmax is 0 for an element that is minus infinity, whatever else its row has,
// and the library's is NaN in a row without another element.
bool supports_softmax(const Functions& functions, const keel_op_call& call) {
  const bool is_causal = kit::attributes<keel_op_softmax_attributes>(call).causal != 0;
  return are_plain(call) && (!is_causal || functions.aclnnTriu != nullptr) &&
         functions.aclnnAmax != nullptr && functions.aclnnExp != nullptr &&
         functions.aclnnSub != nullptr && functions.aclnnDiv != nullptr &&
         functions.aclnnMuls != nullptr && functions.aclnnClamp != nullptr &&
         functions.aclnnAdds != nullptr && functions.aclnnSWhere != nullptr &&
         functions.aclnnReduceSum != nullptr;
}

// Scaled elements, which of them are visible or hidden, and twice a value for each row (counted as
// elements: rows may have one).
uint64_t softmax_workspace(const keel_op_call& call) {
  return temporaries_like(input(call, 0), 7) + 2 * Temporaries::rounded(4);
}

// Makes the elements of |wide| minus infinity that the mask or causality hides.
keel_status hide(OperatorCalls& calls, const keel_op_call& call, const View& wide,
                 Temporaries* temporaries) {
  const bool is_causal = kit::attributes<keel_op_softmax_attributes>(call).causal != 0;
  if (!is_causal && !has_input(call, 1)) return KEEL_OK;
  View lowest;
  KEEL_TRY(constant(calls, ACL_FLOAT, -HUGE_VAL, 1, temporaries, &lowest));
  if (has_input(call, 1)) {
    const View mask = view_of(input(call, 1));
    const View hidden = temporaries->take(ACL_BOOL, mask, /*element_bytes=*/4);
    KEEL_TRY(KEEL_ACLNN(calls, Cast, mask, ACL_BOOL, hidden));
    KEEL_TRY(KEEL_ACLNN(calls, SWhere, hidden, lowest, wide, wide));
  }
  if (!is_causal) return KEEL_OK;
  const int64_t rows = wide.dims[wide.rank - 2];
  const int64_t columns = wide.dims[wide.rank - 1];
  const View hidden =
      temporaries->take(ACL_BOOL, dense(nullptr, ACL_BOOL, {rows, columns}), /*element_bytes=*/4);
  KEEL_TRY(KEEL_ACLNN(calls, InplaceFillScalar, hidden, Scalar{1}));
  KEEL_TRY(KEEL_ACLNN(calls, Triu, hidden, columns - rows + 1, hidden));
  return KEEL_ACLNN(calls, SWhere, hidden, lowest, wide, wide);
}

keel_status run_softmax(OperatorCalls& calls, const keel_op_call& call, Temporaries temporaries) {
  const double scale = kit::attributes<keel_op_softmax_attributes>(call).scale;
  const View x = view_of(input(call, 0));
  const View y = view_of(output(call, 0));
  const View wide = temporaries.take(ACL_FLOAT, x);
  View row = x;
  row.dims[row.rank - 1] = 1;
  const View most = temporaries.take(ACL_FLOAT, row);
  const View sum = temporaries.take(ACL_FLOAT, row);
  const View kept = temporaries.take(ACL_FLOAT, x);
  const View is_visible = temporaries.take(ACL_BOOL, x, /*element_bytes=*/4);
  View zero;
  const Ints last = {{static_cast<int64_t>(x.rank) - 1}, 1};
  View from = x;
  if (x.type != ACL_FLOAT) {
    KEEL_TRY(KEEL_ACLNN(calls, Cast, x, ACL_FLOAT, wide));
    from = wide;
  }
  KEEL_TRY(KEEL_ACLNN(calls, Muls, from, Scalar{scale}, wide));
  KEEL_TRY(hide(calls, call, wide, &temporaries));
  // exp(0) for a finite element, exp(-inf) for minus infinity, and NaN, which is true, for NaN.
  KEEL_TRY(KEEL_ACLNN(calls, Clamp, wide, Scalar{-HUGE_VAL}, Scalar{-FLT_MAX}, kept));
  KEEL_TRY(KEEL_ACLNN(calls, Adds, kept, Scalar{FLT_MAX}, Scalar{1}, kept));
  KEEL_TRY(KEEL_ACLNN(calls, Exp, kept, kept));
  KEEL_TRY(KEEL_ACLNN(calls, Cast, kept, ACL_BOOL, is_visible));
  KEEL_TRY(constant(calls, ACL_FLOAT, 0, 1, &temporaries, &zero));
  KEEL_TRY(KEEL_ACLNN(calls, Amax, wide, last, /*keepDim=*/true, most));
  // The exponents of a row of minus infinities then are minus infinity, not NaN.
  KEEL_TRY(KEEL_ACLNN(calls, Clamp, most, Scalar{-FLT_MAX}, Scalar{HUGE_VAL}, most));
  KEEL_TRY(KEEL_ACLNN(calls, Sub, wide, most, Scalar{1}, wide));
  KEEL_TRY(KEEL_ACLNN(calls, Exp, wide, wide));
  KEEL_TRY(KEEL_ACLNN(calls, ReduceSum, wide, last, /*keepDims=*/true, ACL_FLOAT, sum));
  // The sum of another row is at least 1.
  KEEL_TRY(KEEL_ACLNN(calls, Clamp, sum, Scalar{0.5}, Scalar{HUGE_VAL}, sum));
  KEEL_TRY(KEEL_ACLNN(calls, Div, wide, sum, wide));
  KEEL_TRY(KEEL_ACLNN(calls, SWhere, is_visible, wide, zero, wide_of(y, wide)));
  return narrow(calls, wide, y);
}

// ---- embedding and rope ------------------------------------------------------------------

bool supports_embedding(const Functions& functions, const keel_op_call& call) {
  return are_plain(call) && functions.aclnnEmbedding != nullptr && has_checked_indices(functions);
}

// Three values for each index, and a row of zeroes.
uint64_t embedding_workspace(const keel_op_call& call) {
  return temporaries_like(input(call, 1), 3) + Temporaries::rounded(4);
}

keel_status run_embedding(OperatorCalls& calls, const keel_op_call& call, Temporaries temporaries) {
  const keel_tensor& table = input(call, 0);
  const View indices = view_of(input(call, 1));
  const View out = view_of(output(call, 0));
  View valid;
  View outside;
  View zero;
  const int64_t first = kit::attributes<keel_op_embedding_attributes>(call).first;
  KEEL_TRY(check_indices(calls, indices, first, table.shape[0], &temporaries, &valid, &outside));
  KEEL_TRY(KEEL_ACLNN(calls, Embedding, view_of(table), valid, out));
  KEEL_TRY(constant(calls, static_cast<aclDataType>(out.type), 0, 2, &temporaries, &zero));
  return KEEL_ACLNN(calls, SWhere, with_last_axis(outside), zero, out, out);
}

bool supports_rope(const Functions& functions, const keel_op_call& call) {
  return are_plain(call) && functions.aclnnIndexSelect != nullptr &&
         functions.aclnnMul != nullptr && has_checked_indices(functions);
}

// x and y in float32, half a y, the selected cosines and sines, and the indices.
uint64_t rope_workspace(const keel_op_call& call) {
  const keel_tensor& x = input(call, 0);
  const auto tokens = static_cast<uint64_t>(x.shape[0]);
  const uint64_t half = tokens * static_cast<uint64_t>(x.shape[2]) / 2;
  return temporaries_like(x, 3) + 2 * Temporaries::rounded(4 * half) +
         3 * Temporaries::rounded(4 * tokens) + Temporaries::rounded(4);
}

// The elements of a pair that are number |which|, 0 or 1, of all heads.
View half_of(View view, int64_t which, bool interleaved) {
  const int64_t pairs = view.dims[2] / 2;
  const int64_t stride = view.strides[2];
  const int64_t element = view.type == ACL_FLOAT ? 4 : 2;
  view.data = static_cast<char*>(view.data) + which * (interleaved ? 1 : pairs) * stride * element;
  view.dims[2] = pairs;
  if (interleaved) view.strides[2] *= 2;
  return view;
}

keel_status run_rope(OperatorCalls& calls, const keel_op_call& call, Temporaries temporaries) {
  const auto attributes = kit::attributes<keel_op_rope_attributes>(call);
  const bool interleaved = attributes.interleaved != 0;
  const View x = view_of(input(call, 0));
  const View y = view_of(output(call, 0));
  const View table = view_of(input(call, 1));
  const View positions = view_of(input(call, 3));
  const int64_t tokens = x.dims[0];
  const int64_t pairs = x.dims[2] / 2;
  const View wide_x = temporaries.take(ACL_FLOAT, x);
  const View wide_y = temporaries.take(ACL_FLOAT, x);
  const View product = temporaries.take(ACL_FLOAT, half_of(wide_x, 0, false));
  const View selected = dense(nullptr, ACL_FLOAT, {tokens, pairs});
  const View cosines = temporaries.take(ACL_FLOAT, selected);
  const View sines = temporaries.take(ACL_FLOAT, selected);
  View valid;
  View outside;
  View zero;
  KEEL_TRY(
      check_indices(calls, positions, /*first=*/0, table.dims[0], &temporaries, &valid, &outside));
  KEEL_TRY(KEEL_ACLNN(calls, IndexSelect, table, int64_t{0}, valid, cosines));
  KEEL_TRY(KEEL_ACLNN(calls, IndexSelect, view_of(input(call, 2)), int64_t{0}, valid, sines));
  KEEL_TRY(KEEL_ACLNN(calls, Cast, x, ACL_FLOAT, wide_x));
  const View c = dense(cosines.data, ACL_FLOAT, {tokens, 1, pairs});
  const View s = dense(sines.data, ACL_FLOAT, {tokens, 1, pairs});
  const double sign = attributes.inverse != 0 ? -1 : 1;
  for (int64_t which = 0; which < 2; ++which) {
    const View out = half_of(wide_y, which, interleaved);
    KEEL_TRY(KEEL_ACLNN(calls, Mul, half_of(wide_x, 1 - which, interleaved), s, product));
    KEEL_TRY(KEEL_ACLNN(calls, Mul, half_of(wide_x, which, interleaved), c, out));
    KEEL_TRY(KEEL_ACLNN(calls, Add, out, product, Scalar{which == 0 ? -sign : sign}, out));
  }
  KEEL_TRY(constant(calls, ACL_FLOAT, 0, 3, &temporaries, &zero));
  const View is_outside = with_last_axis(with_last_axis(outside));
  KEEL_TRY(KEEL_ACLNN(calls, SWhere, is_outside, zero, wide_y, wide_of(y, wide_y)));
  return narrow(calls, wide_y, y);
}

}  // namespace

const Op kSum = {"aclnn.reduce_sum", KEEL_OP_NATIVE, supports_sum, nullptr, run_sum};
const Op kSwiglu = {"aclnn.swiglu", KEEL_OP_NATIVE, supports_swiglu, nullptr, run_swiglu};
const Op kLayerNorm = {"aclnn.layer_norm", KEEL_OP_NATIVE, supports_layer_norm, nullptr,
                       run_layer_norm};
const Op kRmsNorm = {"aclnn.rms_norm", KEEL_OP_NATIVE, supports_rms_norm, nullptr, run_rms_norm};
const Op kSoftmax = {"aclnn.amax+exp+reduce_sum", KEEL_OP_COMPOSED, supports_softmax,
                     softmax_workspace, run_softmax};
const Op kEmbedding = {"aclnn.embedding+where", KEEL_OP_COMPOSED, supports_embedding,
                       embedding_workspace, run_embedding};
const Op kRope = {"aclnn.index_select+mul+add", KEEL_OP_COMPOSED, supports_rope, rope_workspace,
                  run_rope};

}  // namespace keel::ascend
