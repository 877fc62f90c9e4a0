// SPDX-License-Identifier: Apache-2.0
// fill, cast, add, scale, axpy and adamw: element-wise operators.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <keel/float_types.hpp>
#include <keel/plugin/numbers.hpp>
#include <keel/plugin_kit.hpp>

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/ops/float_call.h"
#include "backends/cpu/ops/ops.h"
#include "backends/cpu/runtime/device.h"

namespace keel::cpu {
namespace {

// Elements of a piece that one core processes: 256 KiB of float32 per operand, about 50 us from
// memory.
constexpr int64_t kPiece = int64_t{1} << 16;

bool is_16_bit(keel_dtype dtype) {
  return dtype == KEEL_FLOAT16 || dtype == KEEL_BFLOAT16;
}

// Whether all tensors are dense and of equal shape, so that they are flat arrays.
bool flat(const keel_op_call& call) {
  const keel_tensor& first = *call.outputs[0];
  const auto fits = [&](const keel_tensor* tensor) {
    return kit::is_contiguous(*tensor) && kit::same_shape(*tensor, first);
  };
  return std::all_of(call.inputs, call.inputs + call.input_count, fits) &&
         std::all_of(call.outputs, call.outputs + call.output_count, fits);
}

bool all_of_dtype(const keel_op_call& call, keel_dtype dtype) {
  const auto fits = [&](const keel_tensor* tensor) { return tensor->dtype == dtype; };
  return std::all_of(call.inputs, call.inputs + call.input_count, fits) &&
         std::all_of(call.outputs, call.outputs + call.output_count, fits);
}

// Enqueues body(begin, end) over pieces of the first output.
template <typename Body>
void enqueue_flat(Stream& stream, const keel_op_call& call, const Body& body) {
  const int64_t count = kit::element_count(*call.outputs[0]);
  const auto work = [=](ThreadPool& pool) -> keel_status {
    pool.parallel_for(count, kPiece, body);
    return KEEL_OK;
  };
  stream.enqueue(work, /*nanoseconds=*/count / 2);
}

// ---- fill --------------------------------------------------------------------

OpSupport fill_query(const keel_op_call& call) {
  switch (call.outputs[0]->dtype) {
    case KEEL_FLOAT32:
    case KEEL_FLOAT16:
    case KEEL_BFLOAT16:
    case KEEL_INT32:
    case KEEL_INT64:
    case KEEL_UINT8:
      return {flat(call) ? "fill" : nullptr};
    default:
      return {};
  }
}

// |value| as |Integer|, truncated and saturated; NaN gives 0.
template <typename Integer>
Integer to_integer(double value) {
  constexpr double kLow = static_cast<double>(std::numeric_limits<Integer>::min());
  // The largest integer plus 1: exact even if the largest integer is not (int64).
  constexpr double kHigh = static_cast<double>(std::numeric_limits<Integer>::max() / 2 + 1) * 2.0;
  if (std::isnan(value)) return 0;
  if (value <= kLow) return std::numeric_limits<Integer>::min();
  if (value >= kHigh) return std::numeric_limits<Integer>::max();
  return static_cast<Integer>(value);
}

template <typename Element>
uint64_t pattern_of(Element element) {
  uint64_t pattern = 0;
  std::memcpy(&pattern, &element, sizeof(element));
  return pattern;
}

uint64_t fill_pattern(keel_dtype dtype, double value) {
  switch (dtype) {
    case KEEL_FLOAT16:
      return pattern_of(to_float16(static_cast<float>(value)));
    case KEEL_BFLOAT16:
      return pattern_of(to_bfloat16(static_cast<float>(value)));
    case KEEL_INT32:
      return pattern_of(to_integer<int32_t>(value));
    case KEEL_INT64:
      return pattern_of(to_integer<int64_t>(value));
    case KEEL_UINT8:
      return pattern_of(to_integer<uint8_t>(value));
    default:
      return pattern_of(static_cast<float>(value));
  }
}

void fill_run(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& y = *call.outputs[0];
  const uint32_t element = kit::dtype_size(y.dtype);
  const uint64_t size = static_cast<uint64_t>(kit::element_count(y)) * element;
  if (size == 0) return;
  const uint64_t pattern =
      fill_pattern(y.dtype, kit::attributes<keel_op_fill_attributes>(call).value);
  stream.device().fill(stream, address<void>(stream, y), &pattern, element, size);
}

// ---- cast --------------------------------------------------------------------

// The function for flat tensors of the pairs that models cast all the time; NULL for other calls,
// which are elementwise's.
kernels::CastFunction flat_cast(const keel_op_call& call) {
  return flat(call) ? kernels::cast_function(call.inputs[0]->dtype, call.outputs[0]->dtype)
                    : nullptr;
}

OpSupport cast_query(const keel_op_call& call) {
  if (flat_cast(call) != nullptr) return {"cast"};
  return kElementwiseOperator.query(kit::CopyCall(call).call());
}

void cast_run(Stream& stream, const keel_op_call& call, void* workspace) {
  const auto function = flat_cast(call);
  if (function == nullptr) {
    kElementwiseOperator.run(stream, kit::CopyCall(call).call(), workspace);
    return;
  }
  const keel_tensor& x = *call.inputs[0];
  const keel_tensor& y = *call.outputs[0];
  const auto* const from = address<const char>(stream, x);
  auto* const to = address<char>(stream, y);
  const int64_t from_size = kit::dtype_size(x.dtype);
  const int64_t to_size = kit::dtype_size(y.dtype);
  enqueue_flat(stream, call, [=](int64_t begin, int64_t end) {
    function(from + begin * from_size, to + begin * to_size, end - begin);
  });
}

// ---- add, scale, axpy ----------------------------------------------------------

OpSupport f32_or_16_query(const keel_op_call& call, const char* name) {
  const keel_dtype dtype = call.outputs[0]->dtype;
  const bool known = dtype == KEEL_FLOAT32 || is_16_bit(dtype);
  return {known && all_of_dtype(call, dtype) && flat(call) ? name : nullptr};
}

OpSupport add_query(const keel_op_call& call) {
  return f32_or_16_query(call, "add");
}

void add_run(Stream& stream, const keel_op_call& call, void*) {
  const keel_dtype dtype = call.outputs[0]->dtype;
  if (is_16_bit(dtype)) {
    const auto* const a = address<const uint16_t>(stream, *call.inputs[0]);
    const auto* const b = address<const uint16_t>(stream, *call.inputs[1]);
    auto* const c = address<uint16_t>(stream, *call.outputs[0]);
    enqueue_flat(stream, call, [=](int64_t begin, int64_t end) {
      kernels::add_16(dtype, a + begin, b + begin, c + begin, end - begin);
    });
    return;
  }
  const auto* const a = address<const float>(stream, *call.inputs[0]);
  const auto* const b = address<const float>(stream, *call.inputs[1]);
  auto* const c = address<float>(stream, *call.outputs[0]);
  enqueue_flat(stream, call, [=](int64_t begin, int64_t end) {
    kernels::add_f32(a + begin, b + begin, c + begin, end - begin);
  });
}

OpSupport scale_query(const keel_op_call& call) {
  return f32_or_16_query(call, "scale");
}

void scale_run(Stream& stream, const keel_op_call& call, void*) {
  const auto alpha = static_cast<float>(kit::attributes<keel_op_scale_attributes>(call).alpha);
  const keel_dtype dtype = call.outputs[0]->dtype;
  if (is_16_bit(dtype)) {
    const auto* const x = address<const uint16_t>(stream, *call.inputs[0]);
    auto* const y = address<uint16_t>(stream, *call.outputs[0]);
    enqueue_flat(stream, call, [=](int64_t begin, int64_t end) {
      kernels::scale_16(dtype, x + begin, alpha, y + begin, end - begin);
    });
    return;
  }
  const auto* const x = address<const float>(stream, *call.inputs[0]);
  auto* const y = address<float>(stream, *call.outputs[0]);
  enqueue_flat(stream, call, [=](int64_t begin, int64_t end) {
    kernels::scale_f32(x + begin, alpha, y + begin, end - begin);
  });
}

OpSupport axpy_query(const keel_op_call& call) {
  const keel_dtype x = call.inputs[0]->dtype;
  const bool known = (x == KEEL_FLOAT32 || x == KEEL_BFLOAT16) &&
                     call.inputs[1]->dtype == KEEL_FLOAT32 &&
                     call.outputs[0]->dtype == KEEL_FLOAT32;
  return {known && flat(call) ? "axpy" : nullptr};
}

void axpy_run(Stream& stream, const keel_op_call& call, void*) {
  const auto alpha = static_cast<float>(kit::attributes<keel_op_axpy_attributes>(call).alpha);
  const auto* const y = address<const float>(stream, *call.inputs[1]);
  auto* const out = address<float>(stream, *call.outputs[0]);
  if (call.inputs[0]->dtype == KEEL_BFLOAT16) {
    const auto* const x = address<const uint16_t>(stream, *call.inputs[0]);
    enqueue_flat(stream, call, [=](int64_t begin, int64_t end) {
      kernels::axpy_bf16(x + begin, alpha, y + begin, out + begin, end - begin);
    });
    return;
  }
  const auto* const x = address<const float>(stream, *call.inputs[0]);
  enqueue_flat(stream, call, [=](int64_t begin, int64_t end) {
    kernels::axpy_f32(x + begin, alpha, y + begin, out + begin, end - begin);
  });
}

// ---- adamw ---------------------------------------------------------------------

// All tensors are float32, except gradients, which may have 16 bits.
OpSupport adamw_query(const keel_op_call& call) {
  for (uint32_t i = 0; i < call.input_count; ++i) {
    const keel_dtype dtype = call.inputs[i]->dtype;
    if (dtype != KEEL_FLOAT32 && (i != 1 || !is_16_bit(dtype))) return {};
  }
  return {flat(call) ? "adamw" : nullptr};
}

void adamw_run(Stream& stream, const keel_op_call& call, void*) {
  const auto attributes = kit::attributes<keel_op_adamw_attributes>(call);
  const double beta1 = attributes.beta1;
  const double beta2 = attributes.beta2;
  const auto step = static_cast<double>(attributes.step);
  const kernels::AdamwFactors factors = {
      .grad_scale = static_cast<float>(attributes.grad_scale),
      .beta1 = static_cast<float>(beta1),
      .one_minus_beta1 = static_cast<float>(1.0 - beta1),
      .beta2 = static_cast<float>(beta2),
      .one_minus_beta2 = static_cast<float>(1.0 - beta2),
      .m_correction = static_cast<float>(1.0 / (1.0 - std::pow(beta1, step))),
      .v_correction = static_cast<float>(1.0 / (1.0 - std::pow(beta2, step))),
      .epsilon = static_cast<float>(attributes.eps),
      .learning_rate = static_cast<float>(attributes.lr),
      .weight_decay = static_cast<float>(attributes.weight_decay),
  };
  const auto* const p = address<const float>(stream, *call.inputs[0]);
  const auto* const m = address<const float>(stream, *call.inputs[2]);
  const auto* const v = address<const float>(stream, *call.inputs[3]);
  auto* const p_out = address<float>(stream, *call.outputs[0]);
  auto* const m_out = address<float>(stream, *call.outputs[1]);
  auto* const v_out = address<float>(stream, *call.outputs[2]);
  const kernels::ReadFloats g = read(stream, call.inputs[1]);
  enqueue_flat(stream, call, [=](int64_t begin, int64_t end) {
    g.from(begin).for_each_block(end - begin,
                                 [=](int64_t first, const float* block, int64_t width) {
                                   const int64_t i = begin + first;
                                   kernels::adamw_f32(factors, p + i, block, m + i, v + i,
                                                      p_out + i, m_out + i, v_out + i, width);
                                 });
  });
}

}  // namespace

const Operator kFillOperator = {fill_query, fill_run};
const Operator kCastOperator = {cast_query, cast_run};
const Operator kAddOperator = {add_query, add_run};
const Operator kScaleOperator = {scale_query, scale_run};
const Operator kAxpyOperator = {axpy_query, axpy_run};
const Operator kAdamwOperator = {adamw_query, adamw_run};

}  // namespace keel::cpu
