// SPDX-License-Identifier: Apache-2.0
// Helpers for calls whose tensors are dense and float32 or a 16-bit float type, computed in
// float32.
#ifndef KEEL_BACKENDS_CPU_OPS_FLOAT_CALL_H_
#define KEEL_BACKENDS_CPU_OPS_FLOAT_CALL_H_

#include <algorithm>
#include <keel/plugin_kit.hpp>

#include "backends/cpu/kernels/float_rows.h"
#include "backends/cpu/ops/ops.h"
#include "backends/cpu/runtime/caches.h"

namespace keel::cpu {

// Whether all tensors are dense and the first input is float32, float16 or bfloat16. The schema has
// already checked the other dtypes against the first.
inline bool is_dense_float_call(const keel_op_call& call) {
  const auto is_dense = [](const keel_tensor* tensor) {
    return tensor == nullptr || kit::is_contiguous(*tensor);
  };
  const keel_dtype dtype = call.inputs[0]->dtype;
  return (dtype == KEEL_FLOAT32 || dtype == KEEL_FLOAT16 || dtype == KEEL_BFLOAT16) &&
         std::all_of(call.inputs, call.inputs + call.input_count, is_dense) &&
         std::all_of(call.outputs, call.outputs + call.output_count, is_dense);
}

// Returns an empty ReadFloats for an optional input that is absent.
inline kernels::ReadFloats read(const Stream& stream, const keel_tensor* tensor) {
  if (tensor == nullptr) return {};
  return {address<const void>(stream, *tensor), tensor->dtype};
}

inline kernels::WrittenFloats written(const Stream& stream, const keel_tensor& tensor) {
  // The last-level cache evicts a larger tensor before a later call reads the tensor: cached stores
  // gain nothing.
  const bool is_large = kit::span_bytes(tensor) > static_cast<uint64_t>(last_cache());
  return {address<void>(stream, tensor), tensor.dtype, is_large};
}

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_OPS_FLOAT_CALL_H_
