// SPDX-License-Identifier: Apache-2.0
// Operators that combine the elements of a row or a column: sum, cross entropy.
#include <algorithm>

#include "backends/vulkan/ops.h"

namespace keel::vulkan {

namespace {

// Workgroups of a kernel whose groups process a row each and advance by the number of groups.
uint32_t row_groups(Stream& stream, int64_t rows) {
  return static_cast<uint32_t>(
      std::min<int64_t>(rows, stream.device().physical().max_workgroup_count));
}

// ---- sum -------------------------------------------------------------------------

// Elements of a whole tensor that a workgroup sums, and rows of a column that an invocation sums,
// before a second pass combines the sums.
constexpr int64_t kChunk = 4096;
constexpr int64_t kSliceRows = 512;

int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// The input of a sum: elements of |dtype| from |address| on. The sums are float32.
struct Summand {
  uint64_t address;
  keel_dtype dtype;
};

keel_status sum_rows(Stream& stream, const Summand& x, uint64_t result, int64_t rows,
                     int64_t columns, int64_t count) {
  struct {
    uint64_t x, result;
    uint32_t rows, columns, count;
  } arguments = {x.address, result, static_cast<uint32_t>(rows), static_cast<uint32_t>(columns),
                 static_cast<uint32_t>(count)};
  return stream.dispatch(stored_key(x.dtype, Shader::kSumRows, Shader::kSumRows16), &arguments,
                         sizeof(arguments), row_groups(stream, rows));
}

keel_status sum_columns(Stream& stream, const Summand& x, uint64_t result, int64_t rows,
                        int64_t columns, int64_t slices) {
  struct {
    uint64_t x, result;
    uint32_t rows, columns, slice_rows;
  } arguments = {x.address, result, static_cast<uint32_t>(rows), static_cast<uint32_t>(columns),
                 static_cast<uint32_t>(divide_up(rows, slices))};
  const PipelineKey key = stored_key(x.dtype, Shader::kSumColumns, Shader::kSumColumns16);
  const uint32_t local = stream.device().pipelines().local_size(key.shader);
  return stream.dispatch(key, &arguments, sizeof(arguments),
                         row_groups(stream, divide_up(columns, local)),
                         static_cast<uint32_t>(slices));
}

int64_t column_slices(int64_t rows) {
  return std::clamp<int64_t>(divide_up(rows, kSliceRows), 1, 1024);
}

bool supports_sum(const Device& device, const keel_op_call& call) {
  return call.inputs[0]->rank == 2 && takes_floats(device, call.inputs[0]->dtype) &&
         is_dense_call(call);
}

// Bytes of the float32 sums before rounding, if y has 16 bits.
uint64_t unrounded_bytes(const keel_tensor& y) {
  return y.dtype == KEEL_FLOAT32 ? 0 : static_cast<uint64_t>(kit::element_count(y)) * sizeof(float);
}

uint64_t partial_bytes(const keel_op_call& call) {
  const keel_tensor& x = *call.inputs[0];
  const int64_t axis = kit::attributes<keel_op_sum_attributes>(call).axis;
  if (axis == 0) {
    const int64_t slices = column_slices(x.shape[0]);
    return slices == 1 ? 0 : static_cast<uint64_t>(slices * x.shape[1]) * sizeof(float);
  }
  if (axis == 1) return 0;
  int64_t partials = 0;
  for (int64_t left = kit::element_count(x); left > kChunk;) {
    left = divide_up(left, kChunk);
    partials += left;
  }
  return static_cast<uint64_t>(partials) * sizeof(float);
}

uint64_t sum_workspace(const keel_op_call& call) {
  return unrounded_bytes(*call.outputs[0]) + partial_bytes(call);
}

// Computes the float32 |sums| of x, which is not empty, using |partials|.
keel_status sum_floats(Stream& stream, const keel_op_call& call, uint64_t sums, uint64_t partials) {
  const keel_tensor& tensor = *call.inputs[0];
  const int64_t axis = kit::attributes<keel_op_sum_attributes>(call).axis;
  const int64_t rows = tensor.shape[0];
  const int64_t columns = tensor.shape[1];
  Summand x = {address_of(tensor), tensor.dtype};
  int64_t left = kit::element_count(tensor);
  if (axis == 1) return sum_rows(stream, x, sums, rows, columns, left);
  if (axis == 0) {
    const int64_t slices = column_slices(rows);
    if (slices == 1) return sum_columns(stream, x, sums, rows, columns, 1);
    const keel_status status = sum_columns(stream, x, partials, rows, columns, slices);
    return status == KEEL_OK
               ? sum_columns(stream, {partials, KEEL_FLOAT32}, sums, slices, columns, 1)
               : status;
  }
  while (left > kChunk) {
    const int64_t chunks = divide_up(left, kChunk);
    const keel_status status = sum_rows(stream, x, partials, chunks, kChunk, left);
    if (status != KEEL_OK) return status;
    x = {partials, KEEL_FLOAT32};
    partials += static_cast<uint64_t>(chunks) * sizeof(float);
    left = chunks;
  }
  return sum_rows(stream, x, sums, 1, left, left);
}

keel_status run_sum(Stream& stream, const keel_op_call& call, void* workspace) {
  const keel_tensor& y = *call.outputs[0];
  const uint64_t result_bytes = kit::span_bytes(y);
  if (result_bytes == 0) return KEEL_OK;
  if (kit::element_count(*call.inputs[0]) == 0) {
    const float zero = 0.0F;
    return stream.fill(kit::first_element(y), &zero, kit::dtype_size(y.dtype), result_bytes);
  }
  const uint64_t scratch = reinterpret_cast<uintptr_t>(workspace);
  if (y.dtype == KEEL_FLOAT32) return sum_floats(stream, call, address_of(y), scratch);
  const keel_status status = sum_floats(stream, call, scratch, scratch + unrounded_bytes(y));
  if (status != KEEL_OK) return status;
  return convert(stream, scratch, KEEL_FLOAT32, address_of(y), y.dtype, kit::element_count(y));
}

// ---- cross entropy ---------------------------------------------------------------

bool supports_cross_entropy(const Device& device, const keel_op_call& call) {
  return takes_floats(device, call.inputs[0]->dtype) && is_dense_call(call) &&
         call.inputs[0]->shape[1] > 0;
}

keel_status run_cross_entropy(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& logits = *call.inputs[0];
  struct {
    uint64_t logits, labels, loss, logsumexp;
    uint32_t rows, columns;
  } arguments = {address_of(logits),
                 address_of(*call.inputs[1]),
                 address_of(*call.outputs[0]),
                 address_of(*call.outputs[1]),
                 static_cast<uint32_t>(logits.shape[0]),
                 static_cast<uint32_t>(logits.shape[1])};
  return stream.dispatch(stored_key(logits.dtype, Shader::kCrossEntropy, Shader::kCrossEntropy16),
                         &arguments, sizeof(arguments), row_groups(stream, logits.shape[0]));
}

// Bytes of the rounding errors of the rows' logsumexp.
uint64_t rests_bytes(const keel_op_call& call) {
  return static_cast<uint64_t>(call.inputs[0]->shape[0]) * sizeof(float);
}

keel_status find_rests(Stream& stream, const keel_op_call& call, uint64_t rests) {
  const keel_tensor& logits = *call.inputs[0];
  const PipelineKey key =
      stored_key(logits.dtype, Shader::kCrossEntropyRest, Shader::kCrossEntropyRest16);
  const int64_t rows = logits.shape[0];
  struct {
    uint64_t logits, labels, logsumexp, rests;
    uint32_t rows, columns;
  } arguments = {address_of(logits),          address_of(*call.inputs[1]),
                 address_of(*call.inputs[2]), rests,
                 static_cast<uint32_t>(rows), static_cast<uint32_t>(logits.shape[1])};
  const uint32_t local = stream.device().pipelines().local_size(key.shader);
  return stream.dispatch(key, &arguments, sizeof(arguments),
                         row_groups(stream, divide_up(rows, local)));
}

keel_status run_cross_entropy_backward(Stream& stream, const keel_op_call& call, void* workspace) {
  const keel_tensor& logits = *call.inputs[0];
  const uint64_t rests = reinterpret_cast<uintptr_t>(workspace);
  if (kit::element_count(logits) == 0) return KEEL_OK;
  // Runs before the logits are overwritten, since dlogits may be the logits.
  const keel_status status = find_rests(stream, call, rests);
  if (status != KEEL_OK) return status;
  const auto count = static_cast<uint32_t>(kit::element_count(logits));
  const PipelineKey key =
      stored_key(logits.dtype, Shader::kCrossEntropyBackward, Shader::kCrossEntropyBackward16);
  const Spread dealt = spread(stream.device(), key.shader, count);
  struct {
    uint64_t logits, labels, logsumexp, rests, dlogits;
    uint32_t count, span, columns;
    float scale;
  } arguments = {
      address_of(logits),
      address_of(*call.inputs[1]),
      address_of(*call.inputs[2]),
      rests,
      address_of(*call.outputs[0]),
      count,
      dealt.span,
      static_cast<uint32_t>(logits.shape[1]),
      static_cast<float>(kit::attributes<keel_op_cross_entropy_backward_attributes>(call).scale)};
  return stream.dispatch(key, &arguments, sizeof(arguments), dealt.groups);
}

}  // namespace

const Op kSumOp = {"vulkan.sum", supports_sum, sum_workspace, run_sum};
const Op kCrossEntropyOp = {"vulkan.cross_entropy", supports_cross_entropy, nullptr,
                            run_cross_entropy};
const Op kCrossEntropyBackwardOp = {"vulkan.cross_entropy_backward", supports_cross_entropy,
                                    rests_bytes, run_cross_entropy_backward};

}  // namespace keel::vulkan
