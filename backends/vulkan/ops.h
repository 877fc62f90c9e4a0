// SPDX-License-Identifier: Apache-2.0
// The operators of this backend: the calls that each operator supports, and the commands that each
// operator records.
//
// Tensors are float32 (exceptions: casts, sums, products, embeddings, losses, optimizers and
// transpose) and contiguous; products and cast_scaled also accept padded rows, and transpose
// accepts any strides of its input. cast, elementwise, reduce, gather and scatter accept any dtypes
// and strides (families.h). For all other calls the query returns KEEL_OP_NONE.
#ifndef KEEL_BACKENDS_VULKAN_OPS_H_
#define KEEL_BACKENDS_VULKAN_OPS_H_

#include <keel/abi.h>

#include <algorithm>
#include <keel/plugin_kit.hpp>

#include "backends/vulkan/device.h"
#include "backends/vulkan/stream.h"

namespace keel::vulkan {

struct Op {
  const char* kernel;  // kernel name, for keel_op_support
  // Whether this call can run. Does not access tensor data.
  bool (*supports)(const Device& device, const keel_op_call& call);
  // Bytes of device memory that run() needs; NULL: always 0.
  uint64_t (*workspace)(const keel_op_call& call);
  keel_status (*run)(Stream& stream, const keel_op_call& call, void* workspace);
};

// Returns NULL for an operator without a kernel in this backend.
const Op* find_op(keel_op_id id);

// kFillOp, kCastOp, ...: one per operator of keel/ops.h, in the source of its family.
#define KEEL_DECLARE_OP(NUMBER, name, Name) extern const Op k##Name##Op;
KEEL_FOR_EACH_OP(KEEL_DECLARE_OP)
#undef KEEL_DECLARE_OP

// ---- shared by the families --------------------------------------------------

// Shaders index elements with signed 32-bit integers.
inline constexpr int64_t kMaxElements = int64_t{1} << 31;

inline bool is_dense(const keel_tensor& tensor, keel_dtype dtype) {
  return tensor.dtype == dtype && kit::is_contiguous(tensor) &&
         kit::element_count(tensor) < kMaxElements;
}

// Whether the dtype is float32, or a 16-bit float type and the device supports 16-bit storage.
inline bool takes_floats(const Device& device, keel_dtype dtype) {
  return dtype == KEEL_FLOAT32 ||
         ((dtype == KEEL_FLOAT16 || dtype == KEEL_BFLOAT16) && device.physical().storage_16bit);
}

// Whether all present tensors are dense. The schema has already checked the combination of dtypes.
inline bool is_dense_call(const keel_op_call& call) {
  const auto fits = [](const keel_tensor* tensor) {
    return tensor == nullptr || is_dense(*tensor, tensor->dtype);
  };
  return std::all_of(call.inputs, call.inputs + call.input_count, fits) &&
         std::all_of(call.outputs, call.outputs + call.output_count, fits);
}

// The support rule of most operators: dense tensors, first input float32 or a supported 16-bit
// float.
inline bool supports_floats(const Device& device, const keel_op_call& call) {
  return takes_floats(device, call.inputs[0]->dtype) && is_dense_call(call);
}

// Selects between the two modules of a shader that includes stored.glsl.
inline PipelineKey stored_key(keel_dtype dtype, Shader of_32_bits, Shader of_16_bits) {
  if (dtype == KEEL_FLOAT32) return {of_32_bits};
  return {of_16_bits, dtype == KEEL_BFLOAT16 ? 1U : 0U};
}

inline uint64_t address_of(const keel_tensor& tensor) {
  return reinterpret_cast<uintptr_t>(tensor.data) + tensor.byte_offset;
}

// Returns 0 for an optional input that is absent.
inline uint64_t address_or_none(const keel_tensor* tensor) {
  return tensor == nullptr ? 0 : address_of(*tensor);
}

// The distribution of |count| elements: each of |groups| workgroups processes |span| elements.
struct Spread {
  uint32_t groups;
  uint32_t span;
};

// Starting a workgroup costs a CPU driver one lock operation and a GPU almost nothing: CPU drivers
// get few large workgroups, GPUs get enough workgroups to fill the chip.
inline Spread spread(Device& device, Shader shader, uint32_t count) {
  const uint64_t local = device.pipelines().local_size(shader);
  const uint64_t most =
      device.physical().is_cpu() ? uint64_t{16} * device.physical().info.compute_units : 16384;
  const uint64_t rounds = (count + local * most - 1) / (local * most);
  const uint64_t span = local * (rounds == 0 ? 1 : rounds);
  return {static_cast<uint32_t>((count + span - 1) / span), static_cast<uint32_t>(span)};
}

// Records |key| over |count| elements; |arguments| has members count and span.
template <typename Arguments>
keel_status run_elements(Stream& stream, PipelineKey key, Arguments arguments, int64_t count) {
  const Spread dealt = spread(stream.device(), key.shader, static_cast<uint32_t>(count));
  arguments.count = static_cast<uint32_t>(count);
  arguments.span = dealt.span;
  return stream.dispatch(key, &arguments, sizeof(arguments), dealt.groups);
}

// Records y = x converted to another dtype, for |count| dense elements. Supports only the dtype
// pairs of cast (ops_elementwise.cc).
keel_status convert(Stream& stream, uint64_t x, keel_dtype from, uint64_t y, keel_dtype to,
                    int64_t count);

}  // namespace keel::vulkan

#endif  // KEEL_BACKENDS_VULKAN_OPS_H_
