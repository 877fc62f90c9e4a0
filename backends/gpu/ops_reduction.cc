// SPDX-License-Identifier: Apache-2.0
// Operators that combine the elements of a row or a column: sum, cross entropy.
#include "backends/gpu/ops.h"

namespace keel::gpu {
namespace {

using simt::KernelId;

constexpr keel_dtype f32 = KEEL_FLOAT32;
constexpr keel_dtype f16 = KEEL_FLOAT16;
constexpr keel_dtype bf16 = KEEL_BFLOAT16;

// A warp processes rows up to this length, a block longer rows.
constexpr uint64_t kWarpColumns = 512;

uint64_t extent(const keel_tensor& tensor, int axis) {
  return static_cast<uint64_t>(tensor.shape[axis]);
}

// Launches the warp or the block kernel, depending on |columns|.
template <typename Arguments>
keel_status launch_rows(Stream& stream, KernelId warp, KernelId block, uint64_t rows,
                        uint64_t columns, const Arguments& arguments) {
  const bool is_short = columns <= kWarpColumns;
  return launch(stream, is_short ? warp : block,
                blocks_for(stream, rows, is_short ? simt::kWarps : 1), arguments);
}

// ---- sum -------------------------------------------------------------------------

// Elements of a whole tensor that a block sums, and rows of a column that a thread sums, before a
// second pass combines the sums.
constexpr uint64_t kChunk = 8192;
constexpr uint64_t kSliceRows = 512;

// The kernels for elements of one dtype. The results are float32.
struct SumKernels {
  KernelId rows_warp, rows_block, columns;
};

SumKernels sum_kernels(keel_dtype dtype) {
  switch (dtype) {
    case bf16:
      return {KernelId::sum_rows_bf16_warp, KernelId::sum_rows_bf16_block,
              KernelId::sum_columns_bf16};
    case f16:
      return {KernelId::sum_rows_f16_warp, KernelId::sum_rows_f16_block, KernelId::sum_columns_f16};
    default:
      return {KernelId::sum_rows_f32_warp, KernelId::sum_rows_f32_block, KernelId::sum_columns_f32};
  }
}

// The input of a sum: elements of |dtype| from |address| on.
struct Summand {
  simt::Address address;
  keel_dtype dtype;
};

keel_status sum_rows(Stream& stream, const Summand& x, simt::Address y, uint64_t rows,
                     uint64_t columns, uint64_t count) {
  const SumKernels kernels = sum_kernels(x.dtype);
  return launch_rows(stream, kernels.rows_warp, kernels.rows_block, rows, columns,
                     simt::SumRowsArguments{x.address, y, rows, columns, count});
}

keel_status sum_columns(Stream& stream, const Summand& x, simt::Address y, uint64_t rows,
                        uint64_t columns, uint64_t slices) {
  return launch(stream, sum_kernels(x.dtype).columns, blocks_for(stream, columns, simt::kThreads),
                simt::SumColumnsArguments{x.address, y, rows, columns, divide_up(rows, slices)},
                static_cast<uint32_t>(slices));
}

uint64_t column_slices(uint64_t rows) {
  return std::clamp<uint64_t>(divide_up(rows, kSliceRows), 1, 1024);
}

bool supports_sum(const keel_op_call& call) {
  return is_dense_float_call(call);
}

// Bytes of |floats| float32 numbers, rounded up so that the data behind them is aligned.
uint64_t aligned_bytes(uint64_t floats) {
  return divide_up(floats, 4) * 4 * sizeof(float);
}

// Bytes of the float32 sums before rounding, if y has 16 bits.
uint64_t unrounded_bytes(const keel_tensor& y) {
  return y.dtype == f32 ? 0 : aligned_bytes(static_cast<uint64_t>(kit::element_count(y)));
}

uint64_t partial_bytes(const keel_op_call& call) {
  const keel_tensor& x = *call.inputs[0];
  const int64_t axis = kit::attributes<keel_op_sum_attributes>(call).axis;
  if (axis == 1) return 0;
  if (axis == 0) {
    const uint64_t slices = column_slices(extent(x, 0));
    return slices == 1 ? 0 : slices * extent(x, 1) * sizeof(float);
  }
  uint64_t bytes = 0;
  for (auto left = static_cast<uint64_t>(kit::element_count(x)); left > kChunk;) {
    left = divide_up(left, kChunk);
    bytes += aligned_bytes(left);
  }
  return bytes;
}

uint64_t sum_workspace(const keel_op_call& call) {
  return unrounded_bytes(*call.outputs[0]) + partial_bytes(call);
}

// Computes the float32 |sums| of x, which is not empty, using |partials|.
keel_status sum_floats(Stream& stream, const keel_op_call& call, simt::Address sums,
                       simt::Address partials) {
  const keel_tensor& tensor = *call.inputs[0];
  const int64_t axis = kit::attributes<keel_op_sum_attributes>(call).axis;
  const auto count = static_cast<uint64_t>(kit::element_count(tensor));
  const uint64_t rows = extent(tensor, 0);
  const uint64_t columns = extent(tensor, 1);
  Summand x = {address_of(tensor), tensor.dtype};
  if (axis == 1) return sum_rows(stream, x, sums, rows, columns, count);
  if (axis == 0) {
    const uint64_t slices = column_slices(rows);
    if (slices == 1) return sum_columns(stream, x, sums, rows, columns, 1);
    const keel_status status = sum_columns(stream, x, partials, rows, columns, slices);
    return status == KEEL_OK ? sum_columns(stream, {partials, f32}, sums, slices, columns, 1)
                             : status;
  }
  uint64_t left = count;
  while (left > kChunk) {
    const uint64_t chunks = divide_up(left, kChunk);
    const keel_status status = sum_rows(stream, x, partials, chunks, kChunk, left);
    if (status != KEEL_OK) return status;
    x = {partials, f32};
    partials += aligned_bytes(chunks);
    left = chunks;
  }
  return sum_rows(stream, x, sums, 1, left, left);
}

keel_status run_sum(Stream& stream, const keel_op_call& call, void* workspace) {
  const keel_tensor& y = *call.outputs[0];
  const uint64_t result_bytes = kit::span_bytes(y);
  if (result_bytes == 0) return KEEL_OK;
  if (kit::element_count(*call.inputs[0]) == 0) {
    const float zero = 0;
    return stream.fill(kit::first_element(y), &zero, kit::dtype_size(y.dtype), result_bytes);
  }
  const simt::Address scratch = reinterpret_cast<uintptr_t>(workspace);
  if (y.dtype == f32) return sum_floats(stream, call, address_of(y), scratch);
  const keel_status status = sum_floats(stream, call, scratch, scratch + unrounded_bytes(y));
  if (status != KEEL_OK) return status;
  return convert(stream, scratch, f32, address_of(y), y.dtype,
                 static_cast<uint64_t>(kit::element_count(y)));
}

// ---- cross entropy ---------------------------------------------------------------

// The kernels for logits of one dtype: one row per warp, and one row per block.
struct LossKernels {
  KernelId warp, block, backward_warp, backward_block;
};

LossKernels loss_kernels(keel_dtype dtype) {
  switch (dtype) {
    case bf16:
      return {KernelId::cross_entropy_bf16_warp, KernelId::cross_entropy_bf16_block,
              KernelId::cross_entropy_backward_bf16_warp,
              KernelId::cross_entropy_backward_bf16_block};
    case f16:
      return {KernelId::cross_entropy_f16_warp, KernelId::cross_entropy_f16_block,
              KernelId::cross_entropy_backward_f16_warp,
              KernelId::cross_entropy_backward_f16_block};
    default:
      return {KernelId::cross_entropy_f32_warp, KernelId::cross_entropy_f32_block,
              KernelId::cross_entropy_backward_f32_warp,
              KernelId::cross_entropy_backward_f32_block};
  }
}

bool supports_cross_entropy(const keel_op_call& call) {
  return is_dense_float_call(call) && call.inputs[0]->shape[1] > 0;
}

keel_status run_cross_entropy(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& logits = *call.inputs[0];
  const uint64_t rows = extent(logits, 0);
  const uint64_t columns = extent(logits, 1);
  if (rows == 0) return KEEL_OK;
  const LossKernels kernels = loss_kernels(logits.dtype);
  return launch_rows(stream, kernels.warp, kernels.block, rows, columns,
                     simt::CrossEntropyArguments{address_of(logits), address_of(*call.inputs[1]),
                                                 address_of(*call.outputs[0]),
                                                 address_of(*call.outputs[1]), rows, columns});
}

bool supports_cross_entropy_backward(const keel_op_call& call) {
  return is_dense_float_call(call);
}

keel_status run_cross_entropy_backward(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& logits = *call.inputs[0];
  if (kit::element_count(logits) == 0) return KEEL_OK;
  const uint64_t rows = extent(logits, 0);
  const uint64_t columns = extent(logits, 1);
  const LossKernels kernels = loss_kernels(logits.dtype);
  return launch_rows(
      stream, kernels.backward_warp, kernels.backward_block, rows, columns,
      simt::CrossEntropyBackwardArguments{
          address_of(logits), address_of(*call.inputs[1]), address_of(*call.inputs[2]),
          address_of(*call.outputs[0]), rows, columns,
          static_cast<float>(
              kit::attributes<keel_op_cross_entropy_backward_attributes>(call).scale),
          0});
}

}  // namespace

const Op kSumOp = {"simt.sum", supports_sum, sum_workspace, run_sum};
const Op kCrossEntropyOp = {"simt.cross_entropy", supports_cross_entropy, nullptr,
                            run_cross_entropy};
const Op kCrossEntropyBackwardOp = {"simt.cross_entropy_backward", supports_cross_entropy_backward,
                                    nullptr, run_cross_entropy_backward};

}  // namespace keel::gpu
