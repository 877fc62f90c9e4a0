// SPDX-License-Identifier: Apache-2.0
// The operators of this backend: the calls that each operator supports, and the kernels of
// kernels/gpu that each operator launches. Device and Stream are those that ops_target.h of the
// plugin's folder includes.
//
// Tensors are contiguous; matmul and cast_scaled also accept padded rows, transpose accepts any
// strides of its input, and cast, elementwise, reduce, gather and scatter any strides of all
// tensors. For all other calls the query returns KEEL_OP_NONE, and core runs the CPU's operator.
#ifndef KEEL_BACKENDS_GPU_OPS_H_
#define KEEL_BACKENDS_GPU_OPS_H_

#include <keel/abi.h>
#include <ops_target.h>

#include <algorithm>
#include <initializer_list>
#include <keel/plugin_kit.hpp>

#include "kernels/gpu/arguments.h"
#include "kernels/gpu/kernels.h"

namespace keel::gpu {

// An implementation of an operator by the vendor's library, which may refuse individual calls.
struct LibraryOp {
  const char* kernel;  // kernel name, for keel_op_support
  // Whether run() accepts |call|, which Op::supports has accepted. Sets the bytes of device memory
  // that run() needs.
  bool (*takes)(Device& device, const keel_op_call& call, uint64_t* out_workspace_bytes);
  // If |*out_ran| is false nothing was enqueued, and the caller uses Op::run.
  keel_status (*run)(Stream& stream, const keel_op_call& call, void* workspace, bool* out_ran);
};

struct Op {
  const char* kernel;  // kernel name, for keel_op_support
  // Whether this call can run. Does not access tensor data.
  bool (*supports)(const keel_op_call& call);
  // Bytes of device memory that run() needs; NULL: always 0.
  uint64_t (*workspace)(const keel_op_call& call);
  keel_status (*run)(Stream& stream, const keel_op_call& call, void* workspace);
  // Takes precedence over run() for calls that the library accepts. NULL: no library. Excludes
  // |workspace|.
  const LibraryOp* library = nullptr;
};

// Returns NULL for an operator without a kernel in this backend.
const Op* find_op(keel_op_id id);

// kFillOp, kCastOp, ...: one per operator of keel/ops.h, in the source of its family.
#define KEEL_DECLARE_OP(NUMBER, name, Name) extern const Op k##Name##Op;
KEEL_FOR_EACH_OP(KEEL_DECLARE_OP)
#undef KEEL_DECLARE_OP

// ---- shared by the families --------------------------------------------------

inline bool is_dense(const keel_tensor& tensor, keel_dtype dtype) {
  return tensor.dtype == dtype && kit::is_contiguous(tensor);
}

// Whether inputs and outputs are dense and have the given dtypes, one per tensor in that order.
inline bool are_dense(const keel_op_call& call, std::initializer_list<keel_dtype> dtypes) {
  if (dtypes.size() != call.input_count + call.output_count) return false;
  const keel_dtype* dtype = dtypes.begin();
  for (uint32_t i = 0; i < call.input_count; ++i) {
    if (!is_dense(*call.inputs[i], *dtype++)) return false;
  }
  for (uint32_t i = 0; i < call.output_count; ++i) {
    if (!is_dense(*call.outputs[i], *dtype++)) return false;
  }
  return true;
}

// Whether all present tensors are dense and the first input is float32 or a 16-bit float type. The
// schema has already checked the other dtypes against the first.
inline bool is_dense_float_call(const keel_op_call& call) {
  const auto is_packed = [](const keel_tensor* tensor) {
    return tensor == nullptr || kit::is_contiguous(*tensor);
  };
  const keel_dtype dtype = call.inputs[0]->dtype;
  return (dtype == KEEL_FLOAT32 || dtype == KEEL_BFLOAT16 || dtype == KEEL_FLOAT16) &&
         std::all_of(call.inputs, call.inputs + call.input_count, is_packed) &&
         std::all_of(call.outputs, call.outputs + call.output_count, is_packed);
}

// An operator's kernel, or group of kernels, for each float dtype.
template <typename Kernels>
struct ByDtype {
  Kernels f32, bf16, f16;

  constexpr const Kernels& of(keel_dtype dtype) const {
    return dtype == KEEL_FLOAT32 ? f32 : dtype == KEEL_BFLOAT16 ? bf16 : f16;
  }
};

inline simt::Address address_of(const keel_tensor& tensor) {
  return reinterpret_cast<uintptr_t>(tensor.data) + tensor.byte_offset;
}

// Returns 0 for an optional input that is absent.
inline simt::Address address_or_none(const keel_tensor* tensor) {
  return tensor == nullptr ? 0 : address_of(*tensor);
}

inline uint64_t divide_up(uint64_t a, uint64_t b) {
  return (a + b - 1) / b;
}

// Grid size for |work| pieces if a block processes |each| pieces at a time: enough blocks to fill
// the chip several times over, so that early finishers leave no gap. Kernels use grid-stride loops.
inline uint32_t blocks_for(Stream& stream, uint64_t work, uint64_t each) {
  const uint64_t most = uint64_t{32} * stream.device().kernels()->multiprocessors();
  return static_cast<uint32_t>(std::clamp<uint64_t>(divide_up(work, each), 1, most));
}

// Enqueues |kernel| over |blocks| x |blocks_y| blocks. Copies |arguments|.
template <typename Arguments>
keel_status launch(Stream& stream, simt::KernelId kernel, uint32_t blocks, Arguments arguments,
                   uint32_t blocks_y = 1) {
  return stream.device().kernels()->launch(stream, kernel, blocks, blocks_y, &arguments,
                                           sizeof(arguments));
}

// Enqueues y = x converted to another dtype, for |count| dense elements. Supports only dtype pairs
// for which cast has kernels (ops_elementwise.cc).
keel_status convert(Stream& stream, simt::Address x, keel_dtype from, simt::Address y,
                    keel_dtype to, uint64_t count);

}  // namespace keel::gpu

#endif  // KEEL_BACKENDS_GPU_OPS_H_
