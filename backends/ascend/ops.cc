// SPDX-License-Identifier: Apache-2.0
#include "backends/ascend/ops.h"

#include <algorithm>

#include "backends/ascend/types.h"

namespace keel::ascend {
namespace {

const Op* op_of(keel_op_id op) {
#define KEEL_OP_ENTRY(NUMBER, name, Name) &k##Name,
  static constexpr const Op* kOps[] = {nullptr, KEEL_FOR_EACH_OP(KEEL_OP_ENTRY)};
#undef KEEL_OP_ENTRY
  return op < KEEL_OP_COUNT ? kOps[op] : nullptr;
}

bool never(const Functions& /*functions*/, const keel_op_call& /*call*/) {
  return false;
}

// The vendor's library has nothing for the operator.
constexpr Op kAbsent = {"", KEEL_OP_NONE, never, nullptr, nullptr};

}  // namespace

// The bits of dropout are Philox's, and the vendor's library draws others.
const Op kDropoutAdd = kAbsent;
const Op kDropoutBackward = kAbsent;

const Op* find_op(Device& device, const keel_op_call& call) {
  const Op* const op = op_of(call.op);
  if (op == nullptr || !device.sdk().no_operators().empty()) return nullptr;
  if (!op->supports(device.functions(), call)) return nullptr;
  const bool needs_order = op->needs_fixed_order != nullptr && op->needs_fixed_order(call);
  if (needs_order && !device.fixes_order()) return nullptr;
  const bool lacks_float8 =
      op->needs_float8 && !device.casts_float8([&] { return has_float8_casts(device); });
  return lacks_float8 ? nullptr : op;
}

View Temporaries::take(aclDataType type, const View& like, uint64_t element_bytes) {
  const View view = dense_like(next_, type, like);
  uint64_t bytes = element_bytes;
  for (uint32_t axis = 0; axis < view.rank; ++axis) {
    bytes *= static_cast<uint64_t>(view.dims[axis]);
  }
  next_ += rounded(bytes);
  return view;
}

bool is_empty(const keel_op_call& call) {
  for (uint32_t i = 0; i < call.output_count; ++i) {
    if (kit::element_count(*call.outputs[i]) != 0) return false;
  }
  return true;
}

bool is_plain(const keel_tensor& tensor) {
  if (type_of(tensor.dtype) == ACL_DT_UNDEFINED) return false;
  for (uint32_t axis = 0; axis < tensor.rank; ++axis) {
    if (tensor.shape[axis] == 0) return false;
    if (tensor.shape[axis] != 1 && tensor.strides[axis] == 0) return false;
  }
  return true;
}

bool are_plain(const keel_op_call& call) {
  if (is_empty(call)) return true;
  for (uint32_t i = 0; i < call.input_count; ++i) {
    if (call.inputs[i] != nullptr && !is_plain(*call.inputs[i])) return false;
  }
  for (uint32_t i = 0; i < call.output_count; ++i) {
    if (!is_plain(*call.outputs[i])) return false;
  }
  return true;
}

bool is_16_bit(keel_dtype dtype) {
  return dtype == KEEL_FLOAT16 || dtype == KEEL_BFLOAT16;
}

uint64_t temporaries_like(const keel_tensor& tensor, uint64_t count) {
  return count * Temporaries::rounded(4 * static_cast<uint64_t>(kit::element_count(tensor)));
}

keel_status widen(OperatorCalls& calls, View view, Temporaries* temporaries, View* out_wide) {
  *out_wide = view;
  if (view.type == ACL_FLOAT) return KEEL_OK;
  *out_wide = temporaries->take(ACL_FLOAT, view);
  return KEEL_ACLNN(calls, Cast, view, ACL_FLOAT, *out_wide);
}

keel_status narrow(OperatorCalls& calls, const View& wide, const View& view) {
  if (view.type == ACL_FLOAT) return KEEL_OK;
  return KEEL_ACLNN(calls, Cast, wide, static_cast<aclDataType>(view.type), view);
}

keel_status constant(OperatorCalls& calls, aclDataType type, double value, uint32_t rank,
                     Temporaries* temporaries, View* out_constant) {
  View one;
  one.rank = rank;
  std::fill_n(one.dims, rank, int64_t{1});
  *out_constant = temporaries->take(type, one);
  return KEEL_ACLNN(calls, InplaceFillScalar, *out_constant, Scalar{value});
}

keel_status add_bias(OperatorCalls& calls, const View& x, const View& bias,
                     Temporaries* temporaries, View* out_sum) {
  View wide_x;
  View wide_bias;
  *out_sum = temporaries->take(ACL_FLOAT, x);
  KEEL_TRY(widen(calls, x, temporaries, &wide_x));
  KEEL_TRY(widen(calls, bias, temporaries, &wide_bias));
  return KEEL_ACLNN(calls, Add, wide_x, wide_bias, Scalar{1}, *out_sum);
}

// One of the two bounded terms is 0.
keel_status absolute(OperatorCalls& calls, const View& x, Temporaries* temporaries, View* out_y) {
  const View negative = temporaries->take(ACL_FLOAT, x);
  *out_y = temporaries->take(ACL_FLOAT, x);
  KEEL_TRY(KEEL_ACLNN(calls, Muls, x, Scalar{-1}, negative));
  KEEL_TRY(KEEL_ACLNN(calls, Clamp, negative, Scalar{0}, Scalar{HUGE_VAL}, negative));
  KEEL_TRY(KEEL_ACLNN(calls, Clamp, x, Scalar{0}, Scalar{HUGE_VAL}, *out_y));
  return KEEL_ACLNN(calls, Add, *out_y, negative, Scalar{1}, *out_y);
}

bool has_checked_indices(const Functions& functions) {
  return functions.aclnnClamp != nullptr && functions.aclnnSub != nullptr &&
         functions.aclnnCast != nullptr && functions.aclnnSWhere != nullptr &&
         functions.aclnnAdds != nullptr;
}

keel_status check_indices(OperatorCalls& calls, const View& indices, int64_t first, int64_t rows,
                          Temporaries* temporaries, View* out_valid, View* out_outside) {
  const auto type = static_cast<aclDataType>(indices.type);
  const uint64_t bytes = type == ACL_INT64 ? 8 : 4;
  *out_valid = temporaries->take(type, indices, bytes);
  *out_outside = temporaries->take(ACL_BOOL, indices, /*element_bytes=*/4);
  const View shifted = temporaries->take(type, indices, bytes);
  KEEL_TRY(KEEL_ACLNN(calls, Adds, indices, whole(-first), whole(1), shifted));
  const int64_t last = type == ACL_INT64 ? rows - 1 : std::min<int64_t>(rows - 1, INT32_MAX);
  KEEL_TRY(KEEL_ACLNN(calls, Clamp, shifted, whole(0), whole(last), *out_valid));
  KEEL_TRY(KEEL_ACLNN(calls, Sub, shifted, *out_valid, whole(1), shifted));
  return KEEL_ACLNN(calls, Cast, shifted, ACL_BOOL, *out_outside);
}

}  // namespace keel::ascend
