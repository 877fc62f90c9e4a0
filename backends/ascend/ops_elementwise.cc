// SPDX-License-Identifier: Apache-2.0
// fill, cast, add, scale, axpy, clamp, gelu, bias_gelu, transpose, adamw.
#include <algorithm>
#include <cmath>

#include "backends/ascend/ops.h"
#include "backends/ascend/types.h"

namespace keel::ascend {
namespace {

// ---- fill, cast, transpose ---------------------------------------------------------

keel_status run_fill(OperatorCalls& calls, const keel_op_call& call, Temporaries /*none*/) {
  const double value = kit::attributes<keel_op_fill_attributes>(call).value;
  const keel_tensor& y = output(call, 0);
  const bool is_float = is_float32(y) || is_16_bit(y.dtype) || y.dtype == KEEL_FLOAT64;
  return KEEL_ACLNN(calls, InplaceFillScalar, view_of(y),
                    is_float ? Scalar{value} : whole(static_cast<int64_t>(value)));
}

// The vendor's documents do not say what becomes of integers beyond the other type's range, nor how
// 64-bit types round: those pairs are left to the fallback.
bool supports_cast(const Functions& functions, const keel_op_call& call) {
  const keel_dtype from = input(call, 0).dtype;
  const keel_dtype to = output(call, 0).dtype;
  const auto is_float = [](keel_dtype dtype) { return dtype == KEEL_FLOAT32 || is_16_bit(dtype); };
  const bool is_known = (is_float(from) && is_float(to)) ||
                        (from == KEEL_FLOAT32 && to == KEEL_INT32) ||
                        (from == KEEL_INT32 && to == KEEL_FLOAT32);
  return is_known && functions.aclnnCast != nullptr && are_plain(call);
}

keel_status run_cast(OperatorCalls& calls, const keel_op_call& call, Temporaries /*none*/) {
  const keel_tensor& y = output(call, 0);
  return KEEL_ACLNN(calls, Cast, view_of(input(call, 0)), type_of(y.dtype), view_of(y));
}

// Elements are moved, so the types are any of their size.
bool supports_transpose(const Functions& functions, const keel_op_call& call) {
  if (functions.aclnnPermute == nullptr) return false;
  if (is_empty(call)) return true;
  for (const keel_tensor* tensor : {call.inputs[0], call.outputs[0]}) {
    for (uint32_t axis = 0; axis < tensor->rank; ++axis) {
      if (tensor->shape[axis] == 0) return false;
      if (tensor->shape[axis] != 1 && tensor->strides[axis] == 0) return false;
    }
  }
  return call.inputs[0]->rank != 0;
}

keel_status run_transpose(OperatorCalls& calls, const keel_op_call& call, Temporaries /*none*/) {
  const keel_tensor& x = input(call, 0);
  const aclDataType type = mover_of(kit::dtype_size(x.dtype));
  auto order = static_cast<uint64_t>(kit::attributes<keel_op_transpose_attributes>(call).order);
  Ints axes;
  axes.size = x.rank;
  for (uint32_t axis = x.rank; axis-- > 0; order >>= 4) {
    axes.values[axis] = static_cast<int64_t>(order & 0xf);
  }
  return KEEL_ACLNN(calls, Permute, view_of(x).as(type), axes, view_of(output(call, 0)).as(type));
}

// ---- arithmetic ----------------------------------------------------------------------

keel_status run_add(OperatorCalls& calls, const keel_op_call& call, Temporaries /*none*/) {
  return KEEL_ACLNN(calls, Add, view_of(input(call, 0)), view_of(input(call, 1)), Scalar{1},
                    view_of(output(call, 0)));
}

// x in float32: the library rounds the factor of a float16 tensor to float16, where 1e6 is
// infinite.
uint64_t scale_workspace(const keel_op_call& call) {
  return is_float32(input(call, 0)) ? 0 : temporaries_like(input(call, 0), 1);
}

keel_status run_scale(OperatorCalls& calls, const keel_op_call& call, Temporaries temporaries) {
  const double alpha = kit::attributes<keel_op_scale_attributes>(call).alpha;
  const View y = view_of(output(call, 0));
  View x;
  KEEL_TRY(widen(calls, view_of(input(call, 0)), &temporaries, &x));
  KEEL_TRY(KEEL_ACLNN(calls, Muls, x, Scalar{alpha}, wide_of(y, x)));
  return narrow(calls, x, y);
}

bool supports_axpy(const Functions& functions, const keel_op_call& call) {
  return functions.aclnnAdd != nullptr && are_plain(call);
}

// x in float32: a mixed call would need the library's type promotion, which is not relied on.
uint64_t axpy_workspace(const keel_op_call& call) {
  return is_float32(input(call, 0)) ? 0 : temporaries_like(input(call, 0), 1);
}

keel_status run_axpy(OperatorCalls& calls, const keel_op_call& call, Temporaries temporaries) {
  const double alpha = kit::attributes<keel_op_axpy_attributes>(call).alpha;
  View x;
  KEEL_TRY(widen(calls, view_of(input(call, 0)), &temporaries, &x));
  return KEEL_ACLNN(calls, Add, view_of(input(call, 1)), x, Scalar{alpha},
                    view_of(output(call, 0)));
}

bool supports_clamp(const Functions& functions, const keel_op_call& call) {
  return functions.aclnnClamp != nullptr && are_plain(call);
}

keel_status run_clamp(OperatorCalls& calls, const keel_op_call& call, Temporaries /*none*/) {
  const auto bounds = kit::attributes<keel_op_clamp_attributes>(call);
  const double least = std::isnan(bounds.min) ? -HUGE_VAL : bounds.min;
  const double most = std::isnan(bounds.max) ? HUGE_VAL : bounds.max;
  // The library prefers the lower of crossed bounds, Keel the upper.
  return KEEL_ACLNN(calls, Clamp, view_of(input(call, 0)), Scalar{std::min(least, most)},
                    Scalar{most}, view_of(output(call, 0)));
}

// ---- gelu ------------------------------------------------------------------------------

int64_t form_of(int64_t form) {
  return form == KEEL_GELU_FORM_TANH ? ACLNN_GELU_TANH : ACLNN_GELU_ERF;
}

bool supports_gelu(const Functions& functions, const keel_op_call& call) {
  return functions.aclnnGeluV2 != nullptr && are_plain(call);
}

keel_status run_gelu(OperatorCalls& calls, const keel_op_call& call, Temporaries /*none*/) {
  return KEEL_ACLNN(calls, GeluV2, view_of(input(call, 0)),
                    form_of(kit::attributes<keel_op_gelu_attributes>(call).form),
                    view_of(output(call, 0)));
}

// x and the bias in float32, for 16-bit tensors.
uint64_t bias_gelu_workspace(const keel_op_call& call) {
  if (!has_input(call, 1)) return 0;
  return temporaries_like(input(call, 0), 2) + temporaries_like(input(call, 1), 1);
}

keel_status run_bias_gelu(OperatorCalls& calls, const keel_op_call& call, Temporaries temporaries) {
  if (!has_input(call, 1)) return run_gelu(calls, call, temporaries);
  const int64_t form = form_of(kit::attributes<keel_op_bias_gelu_attributes>(call).form);
  const View y = view_of(output(call, 0));
  View sum;
  KEEL_TRY(add_bias(calls, view_of(input(call, 0)), view_of(input(call, 1)), &temporaries, &sum));
  KEEL_TRY(KEEL_ACLNN(calls, GeluV2, sum, form, wide_of(y, sum)));
  return narrow(calls, sum, y);
}

// ---- adamw -----------------------------------------------------------------------------

bool supports_adamw(const Functions& functions, const keel_op_call& call) {
  return are_plain(call) && functions.aclnnMuls != nullptr && functions.aclnnMul != nullptr &&
         functions.aclnnAdds != nullptr && functions.aclnnDiv != nullptr &&
         functions.aclnnSqrt != nullptr;
}

// The gradient in float32, and the step.
uint64_t adamw_workspace(const keel_op_call& call) {
  return temporaries_like(input(call, 0), 2);
}

keel_status run_adamw(OperatorCalls& calls, const keel_op_call& call, Temporaries temporaries) {
  const auto a = kit::attributes<keel_op_adamw_attributes>(call);
  const View p = view_of(input(call, 0));
  View g = view_of(input(call, 1));
  const View m = view_of(input(call, 2));
  const View v = view_of(input(call, 3));
  const View p_out = view_of(output(call, 0));
  const View m_out = view_of(output(call, 1));
  const View v_out = view_of(output(call, 2));
  const View scaled = temporaries.take(ACL_FLOAT, p);
  const View step = temporaries.take(ACL_FLOAT, p);
  if (g.type != ACL_FLOAT) {
    KEEL_TRY(KEEL_ACLNN(calls, Cast, g, ACL_FLOAT, scaled));
    g = scaled;
  }
  KEEL_TRY(KEEL_ACLNN(calls, Muls, g, Scalar{a.grad_scale}, scaled));
  const auto steps = static_cast<double>(a.step);
  // 1 - beta and 1 - beta^t in float64: in float32 1 - 0.999 would lose 10 bits.
  KEEL_TRY(KEEL_ACLNN(calls, Muls, m, Scalar{a.beta1}, m_out));
  KEEL_TRY(KEEL_ACLNN(calls, Add, m_out, scaled, Scalar{1 - a.beta1}, m_out));
  KEEL_TRY(KEEL_ACLNN(calls, Mul, scaled, scaled, step));
  KEEL_TRY(KEEL_ACLNN(calls, Muls, v, Scalar{a.beta2}, v_out));
  KEEL_TRY(KEEL_ACLNN(calls, Add, v_out, step, Scalar{1 - a.beta2}, v_out));
  KEEL_TRY(KEEL_ACLNN(calls, Muls, v_out, Scalar{1 / (1 - std::pow(a.beta2, steps))}, step));
  KEEL_TRY(KEEL_ACLNN(calls, Sqrt, step, step));
  KEEL_TRY(KEEL_ACLNN(calls, Adds, step, Scalar{a.eps}, Scalar{1}, step));
  KEEL_TRY(KEEL_ACLNN(calls, Muls, m_out, Scalar{1 / (1 - std::pow(a.beta1, steps))}, scaled));
  KEEL_TRY(KEEL_ACLNN(calls, Div, scaled, step, step));
  // p - lr * (step + weight_decay * p)
  KEEL_TRY(KEEL_ACLNN(calls, Add, step, p, Scalar{a.weight_decay}, step));
  return KEEL_ACLNN(calls, Add, p, step, Scalar{-a.lr}, p_out);
}

template <auto Member>
bool supports_plain(const Functions& functions, const keel_op_call& call) {
  return functions.*Member != nullptr && are_plain(call);
}

}  // namespace

const Op kFill = {"aclnn.fill_scalar", KEEL_OP_NATIVE,
                  supports_plain<&Functions::aclnnInplaceFillScalar>, nullptr, run_fill};
const Op kCast = {"aclnn.cast", KEEL_OP_NATIVE, supports_cast, nullptr, run_cast};
const Op kTranspose = {"aclnn.permute", KEEL_OP_NATIVE, supports_transpose, nullptr, run_transpose};
const Op kAdd = {"aclnn.add", KEEL_OP_NATIVE, supports_plain<&Functions::aclnnAdd>, nullptr,
                 run_add};
const Op kScale = {"aclnn.muls", KEEL_OP_NATIVE, supports_plain<&Functions::aclnnMuls>,
                   scale_workspace, run_scale};
const Op kAxpy = {"aclnn.add", KEEL_OP_NATIVE, supports_axpy, axpy_workspace, run_axpy};
const Op kClamp = {"aclnn.clamp", KEEL_OP_NATIVE, supports_clamp, nullptr, run_clamp};
const Op kGelu = {"aclnn.gelu_v2", KEEL_OP_NATIVE, supports_gelu, nullptr, run_gelu};
const Op kBiasGelu = {"aclnn.add+gelu_v2", KEEL_OP_COMPOSED, supports_gelu, bias_gelu_workspace,
                      run_bias_gelu};
const Op kAdamw = {"aclnn.mul+add+sqrt+div", KEEL_OP_COMPOSED, supports_adamw, adamw_workspace,
                   run_adamw};

}  // namespace keel::ascend
