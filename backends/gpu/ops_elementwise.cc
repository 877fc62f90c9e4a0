// SPDX-License-Identifier: Apache-2.0
// Element-wise operators: fill, cast, add, scale, axpy, adamw.
#include <cmath>
#include <cstring>
#include <iterator>
#include <keel/float_types.hpp>
#include <keel/plugin/numbers.hpp>

#include "backends/gpu/ops.h"

namespace keel::gpu {
namespace {

using simt::KernelId;

constexpr keel_dtype f32 = KEEL_FLOAT32;
constexpr keel_dtype f16 = KEEL_FLOAT16;
constexpr keel_dtype bf16 = KEEL_BFLOAT16;
constexpr keel_dtype i32 = KEEL_INT32;

// The least number of elements that a thread processes at a time if all tensors are aligned.
constexpr uint64_t kLanes = 4;

bool is_aligned(std::initializer_list<simt::Address> addresses) {
  return std::all_of(addresses.begin(), addresses.end(),
                     [](simt::Address address) { return address % 16 == 0; });
}

template <typename Arguments>
keel_status run_elements(Stream& stream, KernelId kernel, const Arguments& arguments) {
  if (arguments.count == 0) return KEEL_OK;
  return launch(stream, kernel, blocks_for(stream, arguments.count, simt::kThreads * kLanes),
                arguments);
}

// Runs |kernel| on one or two inputs and the output.
keel_status run_usual(Stream& stream, const keel_op_call& call, KernelId kernel, double alpha = 0) {
  const simt::Address first = address_of(*call.inputs[0]);
  const simt::Address second = call.input_count > 1 ? address_of(*call.inputs[1]) : 0;
  const simt::Address out = address_of(*call.outputs[0]);
  return run_elements(
      stream, kernel,
      simt::ElementwiseArguments{{first, second},
                                 out,
                                 static_cast<uint64_t>(kit::element_count(*call.outputs[0])),
                                 static_cast<float>(alpha),
                                 is_aligned({first, second, out}) ? 1U : 0U});
}

// ---- fill ----------------------------------------------------------------------

bool supports_fill(const keel_op_call& call) {
  switch (call.outputs[0]->dtype) {
    case KEEL_FLOAT32:
    case KEEL_FLOAT16:
    case KEEL_BFLOAT16:
    case KEEL_INT32:
    case KEEL_INT64:
    case KEEL_UINT8:
      return kit::is_contiguous(*call.outputs[0]);
    default:
      return false;
  }
}

template <typename Value>
void put(char* out, Value value) {
  std::memcpy(out, &value, sizeof(value));
}

// The driver's own fill is the fastest.
keel_status run_fill(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& y = *call.outputs[0];
  const uint64_t bytes = kit::span_bytes(y);
  if (bytes == 0) return KEEL_OK;
  const double value = kit::attributes<keel_op_fill_attributes>(call).value;
  char pattern[8] = {};
  switch (y.dtype) {
    case KEEL_FLOAT32:
      put(pattern, static_cast<float>(value));
      break;
    case KEEL_FLOAT16:
      put(pattern, to_float16(static_cast<float>(value)));
      break;
    case KEEL_BFLOAT16:
      put(pattern, to_bfloat16(static_cast<float>(value)));
      break;
    case KEEL_INT32:
      put(pattern, static_cast<int32_t>(value));
      break;
    case KEEL_INT64:
      put(pattern, static_cast<int64_t>(value));
      break;
    default:
      put(pattern, static_cast<uint8_t>(value));
      break;
  }
  return stream.fill(kit::first_element(y), pattern, kit::dtype_size(y.dtype), bytes);
}

// ---- cast ----------------------------------------------------------------------

struct Cast {
  keel_dtype from, to;
  KernelId kernel;
};
constexpr Cast kCasts[] = {
    {f32, bf16, KernelId::cast_f32_bf16}, {bf16, f32, KernelId::cast_bf16_f32},
    {f32, f16, KernelId::cast_f32_f16},   {f16, f32, KernelId::cast_f16_f32},
    {f16, bf16, KernelId::cast_f16_bf16}, {bf16, f16, KernelId::cast_bf16_f16},
    {f32, i32, KernelId::cast_f32_i32},   {i32, f32, KernelId::cast_i32_f32},
};

// Returns NULL for a pair without a kernel.
const Cast* find_cast(keel_dtype from, keel_dtype to) {
  const auto* const cast =
      std::find_if(std::begin(kCasts), std::end(kCasts),
                   [&](const Cast& each) { return each.from == from && each.to == to; });
  return cast == std::end(kCasts) ? nullptr : cast;
}

// Returns NULL for calls that are elementwise's: of other pairs, or of tensors that are not dense.
const Cast* find_cast(const keel_op_call& call) {
  const keel_dtype from = call.inputs[0]->dtype;
  const keel_dtype to = call.outputs[0]->dtype;
  return are_dense(call, {from, to}) ? find_cast(from, to) : nullptr;
}

bool supports_cast(const keel_op_call& call) {
  return find_cast(call) != nullptr || kElementwiseOp.supports(kit::CopyCall(call).call());
}

keel_status run_cast(Stream& stream, const keel_op_call& call, void* workspace) {
  const Cast* const cast = find_cast(call);
  if (cast != nullptr) return run_usual(stream, call, cast->kernel);
  return kElementwiseOp.run(stream, kit::CopyCall(call).call(), workspace);
}

// ---- add, scale, axpy ------------------------------------------------------------

// Selects the kernel of the call's dtype.
KernelId choose(const keel_op_call& call, KernelId of_f32, KernelId of_f16, KernelId of_bf16) {
  const keel_dtype dtype = call.inputs[0]->dtype;
  return dtype == f32 ? of_f32 : dtype == f16 ? of_f16 : of_bf16;
}

bool supports_add(const keel_op_call& call) {
  return are_dense(call, {f32, f32, f32}) || are_dense(call, {f16, f16, f16}) ||
         are_dense(call, {bf16, bf16, bf16});
}

keel_status run_add(Stream& stream, const keel_op_call& call, void*) {
  return run_usual(stream, call,
                   choose(call, KernelId::add_f32, KernelId::add_f16, KernelId::add_bf16));
}

bool supports_scale(const keel_op_call& call) {
  return are_dense(call, {f32, f32}) || are_dense(call, {f16, f16}) ||
         are_dense(call, {bf16, bf16});
}

keel_status run_scale(Stream& stream, const keel_op_call& call, void*) {
  return run_usual(stream, call,
                   choose(call, KernelId::scale_f32, KernelId::scale_f16, KernelId::scale_bf16),
                   kit::attributes<keel_op_scale_attributes>(call).alpha);
}

bool supports_axpy(const keel_op_call& call) {
  return are_dense(call, {f32, f32, f32}) || are_dense(call, {bf16, f32, f32});
}

keel_status run_axpy(Stream& stream, const keel_op_call& call, void*) {
  const bool is_f32 = call.inputs[0]->dtype == f32;
  return run_usual(stream, call, is_f32 ? KernelId::axpy_f32 : KernelId::axpy_bf16,
                   kit::attributes<keel_op_axpy_attributes>(call).alpha);
}

// ---- adamw -----------------------------------------------------------------------

bool supports_adamw(const keel_op_call& call) {
  return are_dense(call, {f32, f32, f32, f32, f32, f32, f32}) ||
         are_dense(call, {f32, bf16, f32, f32, f32, f32, f32}) ||
         are_dense(call, {f32, f16, f32, f32, f32, f32, f32});
}

keel_status run_adamw(Stream& stream, const keel_op_call& call, void*) {
  const auto attributes = kit::attributes<keel_op_adamw_attributes>(call);
  const double beta1 = attributes.beta1;
  const double beta2 = attributes.beta2;
  const auto step = static_cast<double>(attributes.step);
  simt::AdamwArguments arguments = {};
  arguments.p = address_of(*call.inputs[0]);
  arguments.g = address_of(*call.inputs[1]);
  arguments.m = address_of(*call.inputs[2]);
  arguments.v = address_of(*call.inputs[3]);
  arguments.p_out = address_of(*call.outputs[0]);
  arguments.m_out = address_of(*call.outputs[1]);
  arguments.v_out = address_of(*call.outputs[2]);
  arguments.count = static_cast<uint64_t>(kit::element_count(*call.outputs[0]));
  arguments.learning_rate = static_cast<float>(attributes.lr);
  arguments.beta1 = static_cast<float>(beta1);
  arguments.one_minus_beta1 = static_cast<float>(1.0 - beta1);
  arguments.beta2 = static_cast<float>(beta2);
  arguments.one_minus_beta2 = static_cast<float>(1.0 - beta2);
  arguments.epsilon = static_cast<float>(attributes.eps);
  arguments.weight_decay = static_cast<float>(attributes.weight_decay);
  arguments.grad_scale = static_cast<float>(attributes.grad_scale);
  arguments.m_correction = static_cast<float>(1.0 / (1.0 - std::pow(beta1, step)));
  arguments.v_correction = static_cast<float>(1.0 / (1.0 - std::pow(beta2, step)));
  arguments.is_aligned = is_aligned({arguments.p, arguments.g, arguments.m, arguments.v,
                                     arguments.p_out, arguments.m_out, arguments.v_out})
                             ? 1
                             : 0;
  const keel_dtype dtype = call.inputs[1]->dtype;
  return run_elements(stream,
                      dtype == f32    ? KernelId::adamw
                      : dtype == bf16 ? KernelId::adamw_bf16
                                      : KernelId::adamw_f16,
                      arguments);
}

}  // namespace

keel_status convert(Stream& stream, simt::Address x, keel_dtype from, simt::Address y,
                    keel_dtype to, uint64_t count) {
  simt::ElementwiseArguments arguments = {};
  arguments.in[0] = x;
  arguments.out = y;
  arguments.count = count;
  arguments.is_aligned = is_aligned({x, y}) ? 1 : 0;
  return run_elements(stream, find_cast(from, to)->kernel, arguments);
}

const Op kFillOp = {KEEL_GPU ".fill", supports_fill, nullptr, run_fill};
const Op kCastOp = {"simt.cast", supports_cast, nullptr, run_cast};
const Op kAddOp = {"simt.add", supports_add, nullptr, run_add};
const Op kScaleOp = {"simt.scale", supports_scale, nullptr, run_scale};
const Op kAxpyOp = {"simt.axpy", supports_axpy, nullptr, run_axpy};
const Op kAdamwOp = {"simt.adamw", supports_adamw, nullptr, run_adamw};

}  // namespace keel::gpu
