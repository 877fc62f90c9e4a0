// Operators that combine the elements of a row or a column: sum, cross entropy.
#include "backends/cuda/ops.h"

namespace keel::cuda {
namespace {

using simt::KernelId;

constexpr keel_dtype f32 = KEEL_FLOAT32;
constexpr keel_dtype i32 = KEEL_INT32;

// Rows up to this length are a warp's, longer ones a block's.
constexpr uint64_t kWarpColumns = 512;

uint64_t extent(const keel_tensor& tensor, int axis) {
  return static_cast<uint64_t>(tensor.shape[axis]);
}

// Launches whichever of the kernels rows of |columns| want.
template <typename Arguments>
keel_status launch_rows(Stream& stream, KernelId warp, KernelId block, uint64_t rows,
                        uint64_t columns, const Arguments& arguments) {
  const bool is_short = columns <= kWarpColumns;
  return launch(stream, is_short ? warp : block,
                blocks_for(stream, rows, is_short ? simt::kWarps : 1), arguments);
}

// ---- sum -------------------------------------------------------------------------

// Elements that a block sums of a whole tensor, and rows that a thread sums of a column, before a
// second pass takes over.
constexpr uint64_t kChunk = 8192;
constexpr uint64_t kSliceRows = 512;

keel_status sum_rows(Stream& stream, simt::Address x, simt::Address y, uint64_t rows,
                     uint64_t columns, uint64_t count) {
  return launch_rows(stream, KernelId::sum_rows_warp, KernelId::sum_rows_block, rows, columns,
                     simt::SumRowsArguments{x, y, rows, columns, count});
}

keel_status sum_columns(Stream& stream, simt::Address x, simt::Address y, uint64_t rows,
                        uint64_t columns, uint64_t slices) {
  return launch(stream, KernelId::sum_columns, blocks_for(stream, columns, simt::kThreads),
                simt::SumColumnsArguments{x, y, rows, columns, divide_up(rows, slices)},
                static_cast<uint32_t>(slices));
}

uint64_t column_slices(uint64_t rows) {
  return std::clamp<uint64_t>(divide_up(rows, kSliceRows), 1, 1024);
}

bool supports_sum(const keel_op_call& call) {
  return are_dense(call, {f32, f32});
}

uint64_t sum_workspace(const keel_op_call& call) {
  const keel_tensor& x = *call.inputs[0];
  const int64_t axis = call.attributes[0].i;
  if (axis == 1) return 0;
  if (axis == 0) {
    const uint64_t slices = column_slices(extent(x, 0));
    return slices == 1 ? 0 : slices * extent(x, 1) * sizeof(float);
  }
  uint64_t partials = 0;
  for (auto left = static_cast<uint64_t>(kit::element_count(x)); left > kChunk;) {
    left = divide_up(left, kChunk);
    partials += divide_up(left, 4) * 4;  // each pass begins aligned
  }
  return partials * sizeof(float);
}

keel_status run_sum(Stream& stream, const keel_op_call& call, void* workspace) {
  const keel_tensor& x = *call.inputs[0];
  const keel_tensor& y = *call.outputs[0];
  const int64_t axis = call.attributes[0].i;
  const auto count = static_cast<uint64_t>(kit::element_count(x));
  const uint64_t result_bytes = kit::span_bytes(y);
  if (result_bytes == 0) return KEEL_OK;
  if (count == 0) {
    const float zero = 0;
    return stream.fill(kit::first_element(y), &zero, sizeof(zero), result_bytes);
  }
  const uint64_t rows = extent(x, 0);
  const uint64_t columns = extent(x, 1);
  simt::Address scratch = reinterpret_cast<uintptr_t>(workspace);
  if (axis == 1) return sum_rows(stream, address_of(x), address_of(y), rows, columns, count);
  if (axis == 0) {
    const uint64_t slices = column_slices(rows);
    if (slices == 1) return sum_columns(stream, address_of(x), address_of(y), rows, columns, 1);
    const keel_status status = sum_columns(stream, address_of(x), scratch, rows, columns, slices);
    return status == KEEL_OK ? sum_columns(stream, scratch, address_of(y), slices, columns, 1)
                             : status;
  }
  simt::Address from = address_of(x);
  uint64_t left = count;
  while (left > kChunk) {
    const uint64_t partials = divide_up(left, kChunk);
    const keel_status status = sum_rows(stream, from, scratch, partials, kChunk, left);
    if (status != KEEL_OK) return status;
    from = scratch;
    scratch += divide_up(partials, 4) * 4 * sizeof(float);
    left = partials;
  }
  return sum_rows(stream, from, address_of(y), 1, left, left);
}

// ---- cross entropy ---------------------------------------------------------------

bool supports_cross_entropy(const keel_op_call& call) {
  return are_dense(call, {f32, i32, f32, f32}) && call.inputs[0]->shape[1] > 0;
}

keel_status run_cross_entropy(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& logits = *call.inputs[0];
  const uint64_t rows = extent(logits, 0);
  const uint64_t columns = extent(logits, 1);
  if (rows == 0) return KEEL_OK;
  return launch_rows(stream, KernelId::cross_entropy_warp, KernelId::cross_entropy_block, rows,
                     columns,
                     simt::CrossEntropyArguments{address_of(logits), address_of(*call.inputs[1]),
                                                 address_of(*call.outputs[0]),
                                                 address_of(*call.outputs[1]), rows, columns});
}

bool supports_cross_entropy_backward(const keel_op_call& call) {
  return are_dense(call, {f32, i32, f32, f32});
}

keel_status run_cross_entropy_backward(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& logits = *call.inputs[0];
  if (kit::element_count(logits) == 0) return KEEL_OK;
  const uint64_t rows = extent(logits, 0);
  const uint64_t columns = extent(logits, 1);
  return launch_rows(stream, KernelId::cross_entropy_backward_warp,
                     KernelId::cross_entropy_backward_block, rows, columns,
                     simt::CrossEntropyBackwardArguments{
                         address_of(logits), address_of(*call.inputs[1]),
                         address_of(*call.inputs[2]), address_of(*call.outputs[0]), rows, columns,
                         static_cast<float>(call.attributes[0].f), 0});
}

}  // namespace

const Op kSumOp = {"simt.sum", supports_sum, sum_workspace, run_sum};
const Op kCrossEntropyOp = {"simt.cross_entropy", supports_cross_entropy, nullptr,
                            run_cross_entropy};
const Op kCrossEntropyBackwardOp = {"simt.cross_entropy_backward", supports_cross_entropy_backward,
                                    nullptr, run_cross_entropy_backward};

}  // namespace keel::cuda
