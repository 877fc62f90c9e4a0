// SPDX-License-Identifier: Apache-2.0
// layer_norm, rms_norm, softmax and their gradients: operators on rows along the last axis.
#include <algorithm>

#include "backends/vulkan/ops.h"

namespace keel::vulkan {

namespace {

struct Rows {
  explicit Rows(const keel_tensor& tensor)
      : columns(static_cast<uint32_t>(tensor.shape[tensor.rank - 1])),
        count(columns == 0 ? 0 : static_cast<uint32_t>(kit::element_count(tensor) / columns)) {}

  uint32_t columns;
  uint32_t count;
};

// Workgroups of a kernel whose groups process a row each and advance by the number of groups.
uint32_t row_groups(Stream& stream, const Rows& rows) {
  return std::min(rows.count, stream.device().physical().max_workgroup_count);
}

// ---- layer_norm, rms_norm ----------------------------------------------------------

// layer_norm has a mean and may have beta, rms_norm neither.
keel_status run_norm(Stream& stream, const keel_op_call& call, void*) {
  const bool has_mean = call.output_count == 3;
  const keel_tensor* const beta = has_mean ? call.inputs[2] : nullptr;
  const Rows rows(*call.inputs[0]);
  if (rows.count == 0) return KEEL_OK;
  struct {
    uint64_t x, gamma, beta, y, mean, rstd;
    uint32_t rows, columns, has_mean, has_beta;
    float eps;
  } arguments = {address_of(*call.inputs[0]),
                 address_of(*call.inputs[1]),
                 address_or_none(beta),
                 address_of(*call.outputs[0]),
                 has_mean ? address_of(*call.outputs[1]) : 0,
                 address_of(*call.outputs[has_mean ? 2 : 1]),
                 rows.count,
                 rows.columns,
                 has_mean ? 1u : 0u,
                 beta != nullptr ? 1u : 0u,
                 static_cast<float>(kit::attributes<keel_op_layer_norm_attributes>(call).eps)};
  return stream.dispatch(stored_key(call.inputs[0]->dtype, Shader::kNorm, Shader::kNorm16),
                         &arguments, sizeof(arguments), row_groups(stream, rows));
}

// Rows of a column that an invocation sums before a second pass combines the sums; few, since rows
// of models are only a few workgroups wide.
constexpr uint32_t kSliceRows = 64;

uint32_t divide_up(uint32_t a, uint32_t b) {
  return (a + b - 1) / b;
}

uint32_t column_slices(const Rows& rows) {
  return std::clamp<uint32_t>(divide_up(rows.count, kSliceRows), 1, 1024);
}

// The sums of the slices: dgamma's, then dbeta's.
uint64_t norm_backward_workspace(const keel_op_call& call) {
  const Rows rows(*call.inputs[0]);
  const uint32_t slices = column_slices(rows);
  const uint32_t sums = call.output_count - 1;
  return slices == 1 ? 0 : uint64_t{sums} * slices * rows.columns * sizeof(float);
}

uint32_t column_groups(Stream& stream, Shader shader, const Rows& rows) {
  const uint32_t local = stream.device().pipelines().local_size(shader);
  return std::min(divide_up(rows.columns, local), stream.device().physical().max_workgroup_count);
}

keel_status sum_slices(Stream& stream, uint64_t partials, const keel_tensor& sums, const Rows& rows,
                       uint32_t slices) {
  struct {
    uint64_t x, result;
    uint32_t rows, columns, slice_rows;
  } arguments = {partials, address_of(sums), slices, rows.columns, slices};
  return stream.dispatch({Shader::kSumColumns}, &arguments, sizeof(arguments),
                         column_groups(stream, Shader::kSumColumns, rows));
}

struct Statistics {
  uint64_t mean;  // 0: rms_norm's
  uint64_t rstd;
};

keel_status sum_columns(Stream& stream, const keel_op_call& call, const Rows& rows,
                        const Statistics& statistics, void* workspace) {
  const keel_tensor& dgamma = *call.outputs[1];
  const keel_tensor* const dbeta = statistics.mean == 0 ? nullptr : call.outputs[2];
  const uint32_t slices = column_slices(rows);
  struct {
    uint64_t dy, x, mean, rstd, dgamma, dbeta;
    uint32_t rows, columns, slice_rows, has_mean;
  } arguments = {address_of(*call.inputs[0]),
                 address_of(*call.inputs[1]),
                 statistics.mean,
                 statistics.rstd,
                 address_of(dgamma),
                 address_or_none(dbeta),
                 rows.count,
                 rows.columns,
                 divide_up(rows.count, slices),
                 statistics.mean == 0 ? 0u : 1u};
  if (slices > 1) {
    arguments.dgamma = reinterpret_cast<uintptr_t>(workspace);
    arguments.dbeta = arguments.dgamma + uint64_t{slices} * rows.columns * sizeof(float);
  }
  const PipelineKey key =
      stored_key(call.inputs[0]->dtype, Shader::kNormColumns, Shader::kNormColumns16);
  keel_status status = stream.dispatch(key, &arguments, sizeof(arguments),
                                       column_groups(stream, key.shader, rows), slices);
  if (slices == 1) return status;
  if (status == KEEL_OK) status = sum_slices(stream, arguments.dgamma, dgamma, rows, slices);
  if (status == KEEL_OK && dbeta != nullptr) {
    status = sum_slices(stream, arguments.dbeta, *dbeta, rows, slices);
  }
  return status;
}

keel_status run_norm_backward(Stream& stream, const keel_op_call& call, void* workspace) {
  const bool has_mean = call.output_count == 3;
  const Rows rows(*call.inputs[0]);
  if (rows.columns == 0) return KEEL_OK;
  if (rows.count == 0) {
    const float zero = 0.0F;
    keel_status status = KEEL_OK;
    for (uint32_t o = 1; o < call.output_count && status == KEEL_OK; ++o) {
      status = stream.fill(kit::first_element(*call.outputs[o]), &zero, sizeof(zero),
                           kit::span_bytes(*call.outputs[o]));
    }
    return status;
  }
  const Statistics statistics = {has_mean ? address_of(*call.inputs[3]) : 0,
                                 address_of(*call.inputs[has_mean ? 4 : 3])};
  // Runs first, because dx may be dy.
  const keel_status status = sum_columns(stream, call, rows, statistics, workspace);
  if (status != KEEL_OK) return status;
  struct {
    uint64_t dy, x, gamma, mean, rstd, dx;
    uint32_t rows, columns, has_mean;
  } arguments = {address_of(*call.inputs[0]),
                 address_of(*call.inputs[1]),
                 address_of(*call.inputs[2]),
                 statistics.mean,
                 statistics.rstd,
                 address_of(*call.outputs[0]),
                 rows.count,
                 rows.columns,
                 has_mean ? 1u : 0u};
  return stream.dispatch(
      stored_key(call.inputs[0]->dtype, Shader::kNormBackward, Shader::kNormBackward16), &arguments,
      sizeof(arguments), row_groups(stream, rows));
}

// ---- softmax -----------------------------------------------------------------------

keel_status run_softmax(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& x = *call.inputs[0];
  const uint64_t mask = address_or_none(call.inputs[1]);
  const Rows rows(x);
  if (rows.count == 0) return KEEL_OK;
  constexpr uint64_t kWord = sizeof(uint32_t);
  struct {
    uint64_t x, mask, y;
    uint32_t rows, columns, height, mask_rows, mask_offset, causal;
    float scale;
  } arguments = {address_of(x),
                 mask / kWord * kWord,
                 address_of(*call.outputs[0]),
                 rows.count,
                 rows.columns,
                 static_cast<uint32_t>(x.shape[x.rank - 2]),
                 mask == 0 ? 0 : Rows(*call.inputs[1]).count,
                 static_cast<uint32_t>(mask % kWord),
                 static_cast<uint32_t>(kit::attributes<keel_op_softmax_attributes>(call).causal),
                 static_cast<float>(kit::attributes<keel_op_softmax_attributes>(call).scale)};
  return stream.dispatch(stored_key(x.dtype, Shader::kSoftmax, Shader::kSoftmax16), &arguments,
                         sizeof(arguments), row_groups(stream, rows));
}

keel_status run_softmax_backward(Stream& stream, const keel_op_call& call, void*) {
  const Rows rows(*call.inputs[0]);
  if (rows.count == 0) return KEEL_OK;
  struct {
    uint64_t y, dy, dx;
    uint32_t rows, columns;
    float scale;
  } arguments = {
      address_of(*call.inputs[0]),
      address_of(*call.inputs[1]),
      address_of(*call.outputs[0]),
      rows.count,
      rows.columns,
      static_cast<float>(kit::attributes<keel_op_softmax_backward_attributes>(call).scale)};
  return stream.dispatch(
      stored_key(call.inputs[0]->dtype, Shader::kSoftmaxBackward, Shader::kSoftmaxBackward16),
      &arguments, sizeof(arguments), row_groups(stream, rows));
}

}  // namespace

const Op kLayerNormOp = {"vulkan.layer_norm", supports_floats, nullptr, run_norm};
const Op kLayerNormBackwardOp = {"vulkan.layer_norm_backward", supports_floats,
                                 norm_backward_workspace, run_norm_backward};
const Op kRmsNormOp = {"vulkan.rms_norm", supports_floats, nullptr, run_norm};
const Op kRmsNormBackwardOp = {"vulkan.rms_norm_backward", supports_floats, norm_backward_workspace,
                               run_norm_backward};
const Op kSoftmaxOp = {"vulkan.softmax", supports_floats, nullptr, run_softmax};
const Op kSoftmaxBackwardOp = {"vulkan.softmax_backward", supports_floats, nullptr,
                               run_softmax_backward};

}  // namespace keel::vulkan
