// SPDX-License-Identifier: Apache-2.0
// matmul and batched_matmul. Operands of two types, activations and a bias beside an old content
// are left to the fallback.
#include "backends/ascend/ops.h"

namespace keel::ascend {
namespace {

bool has_one_type(const keel_op_call& call) {
  return are_plain(call) && input(call, 0).dtype == output(call, 0).dtype;
}

bool supports_matmul(const Functions& functions, const keel_op_call& call) {
  const auto a = kit::attributes<keel_op_matmul_attributes>(call);
  if (functions.aclnnMatmul == nullptr || functions.aclnnAddmm == nullptr) return false;
  if (!has_one_type(call) || a.activation != KEEL_ACTIVATION_NONE) return false;
  if (has_input(call, 2)) return a.beta == 0;
  // A factor alone is applied after the product was rounded.
  return a.beta != 0 || a.alpha == 1 ||
         (functions.aclnnMuls != nullptr && is_float32(output(call, 0)));
}

keel_status run_matmul(OperatorCalls& calls, const keel_op_call& call, Temporaries /*none*/) {
  const auto attributes = kit::attributes<keel_op_matmul_attributes>(call);
  View a = view_of(input(call, 0));
  View b = view_of(input(call, 1));
  const View c = view_of(output(call, 0));
  if (attributes.trans_a != 0) a = transposed(a);
  if (attributes.trans_b != 0) b = transposed(b);
  if (has_input(call, 2)) {
    return KEEL_ACLNN(calls, Addmm, view_of(input(call, 2)), a, b, Scalar{1},
                      Scalar{attributes.alpha}, c, ACLNN_KEEP_DTYPE);
  }
  if (attributes.beta != 0) {
    return KEEL_ACLNN(calls, Addmm, c, a, b, Scalar{attributes.beta}, Scalar{attributes.alpha}, c,
                      ACLNN_KEEP_DTYPE);
  }
  KEEL_TRY(KEEL_ACLNN(calls, Matmul, a, b, c, ACLNN_KEEP_DTYPE));
  if (attributes.alpha == 1) return KEEL_OK;
  return KEEL_ACLNN(calls, Muls, c, Scalar{attributes.alpha}, c);
}

bool supports_batched_matmul(const Functions& functions, const keel_op_call& call) {
  const auto a = kit::attributes<keel_op_batched_matmul_attributes>(call);
  return functions.aclnnBatchMatMul != nullptr && has_one_type(call) && a.beta == 0 &&
         (a.alpha == 1 || (functions.aclnnMuls != nullptr && is_float32(output(call, 0))));
}

keel_status run_batched_matmul(OperatorCalls& calls, const keel_op_call& call,
                               Temporaries /*none*/) {
  const auto attributes = kit::attributes<keel_op_batched_matmul_attributes>(call);
  View a = view_of(input(call, 0));
  View b = view_of(input(call, 1));
  const View c = view_of(output(call, 0));
  if (attributes.trans_a != 0) a = transposed(a);
  if (attributes.trans_b != 0) b = transposed(b);
  KEEL_TRY(KEEL_ACLNN(calls, BatchMatMul, a, b, c, ACLNN_KEEP_DTYPE));
  if (attributes.alpha == 1) return KEEL_OK;
  return KEEL_ACLNN(calls, Muls, c, Scalar{attributes.alpha}, c);
}

}  // namespace

const Op kMatmul = {"aclnn.matmul", KEEL_OP_NATIVE, supports_matmul, nullptr, run_matmul};
const Op kBatchedMatmul = {"aclnn.batch_matmul", KEEL_OP_NATIVE, supports_batched_matmul, nullptr,
                           run_batched_matmul};

}  // namespace keel::ascend
