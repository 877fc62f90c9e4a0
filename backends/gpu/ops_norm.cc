// SPDX-License-Identifier: Apache-2.0
// layer_norm, rms_norm, softmax and their gradients: operators on rows along the last axis.
#include "backends/gpu/ops.h"

namespace keel::gpu {
namespace {

using simt::KernelId;

// A warp processes rows up to this length, which it keeps in registers; a block longer rows.
constexpr uint64_t kWarpColumns = 1024;

struct RowKernels {
  KernelId warp, block;
};

struct Rows {
  explicit Rows(const keel_tensor& tensor)
      : columns(static_cast<uint64_t>(tensor.shape[tensor.rank - 1])),
        count(columns == 0 ? 0 : static_cast<uint64_t>(kit::element_count(tensor)) / columns) {}

  uint64_t columns;
  uint64_t count;
};

template <typename Arguments>
keel_status launch_rows(Stream& stream, const RowKernels& kernels, const Rows& rows,
                        const Arguments& arguments) {
  const bool is_short = rows.columns <= kWarpColumns;
  return launch(stream, is_short ? kernels.warp : kernels.block,
                blocks_for(stream, rows.count, is_short ? simt::kWarps : 1), arguments);
}

// ---- layer_norm, rms_norm ----------------------------------------------------------

constexpr ByDtype<RowKernels> kNorm = {{KernelId::norm_f32_warp, KernelId::norm_f32_block},
                                       {KernelId::norm_bf16_warp, KernelId::norm_bf16_block},
                                       {KernelId::norm_f16_warp, KernelId::norm_f16_block}};
constexpr ByDtype<RowKernels> kNormBackward = {
    {KernelId::norm_backward_f32_warp, KernelId::norm_backward_f32_block},
    {KernelId::norm_backward_bf16_warp, KernelId::norm_backward_bf16_block},
    {KernelId::norm_backward_f16_warp, KernelId::norm_backward_f16_block}};
constexpr ByDtype<KernelId> kNormColumns = {KernelId::norm_columns_f32, KernelId::norm_columns_bf16,
                                            KernelId::norm_columns_f16};

keel_status run_norm(Stream& stream, const keel_op_call& call, simt::Address beta,
                     simt::Address mean, const keel_tensor& rstd) {
  const keel_tensor& x = *call.inputs[0];
  const Rows rows(x);
  if (rows.count == 0) return KEEL_OK;
  const double eps = kit::attributes<keel_op_layer_norm_attributes>(call).eps;  // or rms_norm's
  return launch_rows(stream, kNorm.of(x.dtype), rows,
                     simt::NormArguments{address_of(x), address_of(*call.inputs[1]), beta,
                                         address_of(*call.outputs[0]), mean, address_of(rstd),
                                         rows.count, rows.columns, static_cast<float>(eps), 0});
}

keel_status run_layer_norm(Stream& stream, const keel_op_call& call, void*) {
  return run_norm(stream, call, address_or_none(call.inputs[2]), address_of(*call.outputs[1]),
                  *call.outputs[2]);
}

keel_status run_rms_norm(Stream& stream, const keel_op_call& call, void*) {
  return run_norm(stream, call, 0, 0, *call.outputs[1]);
}

// Rows of a column that a thread sums before a second pass combines the sums; few, since rows of
// models are only a few blocks wide.
constexpr uint64_t kSliceRows = 64;

uint64_t column_slices(uint64_t rows) {
  return std::clamp<uint64_t>(divide_up(rows, kSliceRows), 1, 1024);
}

// The sums of the slices: dgamma's, then dbeta's.
uint64_t norm_backward_workspace(const keel_op_call& call) {
  const Rows rows(*call.inputs[0]);
  const uint64_t slices = column_slices(rows.count);
  const uint64_t sums = call.output_count - 1;
  return slices == 1 ? 0 : sums * slices * rows.columns * sizeof(float);
}

keel_status sum_slices(Stream& stream, simt::Address partials, const keel_tensor& sums,
                       uint64_t columns, uint64_t slices) {
  return launch(stream, KernelId::sum_columns_f32, blocks_for(stream, columns, simt::kThreads),
                simt::SumColumnsArguments{partials, address_of(sums), slices, columns, slices});
}

keel_status sum_columns(Stream& stream, const keel_op_call& call, const Rows& rows,
                        simt::Address mean, simt::Address rstd, void* workspace) {
  const keel_tensor& dgamma = *call.outputs[1];
  const keel_tensor* const dbeta = mean == 0 ? nullptr : call.outputs[2];
  const uint64_t slices = column_slices(rows.count);
  simt::NormColumnsArguments arguments = {
      address_of(*call.inputs[0]),  address_of(*call.inputs[1]), mean,       rstd,
      address_of(dgamma),           address_or_none(dbeta),      rows.count, rows.columns,
      divide_up(rows.count, slices)};
  if (slices > 1) {
    arguments.dgamma = reinterpret_cast<uintptr_t>(workspace);
    if (dbeta != nullptr) {
      arguments.dbeta = arguments.dgamma + slices * rows.columns * sizeof(float);
    }
  }
  const KernelId kernel = kNormColumns.of(call.inputs[0]->dtype);
  const uint32_t blocks = blocks_for(stream, rows.columns, simt::kThreads);
  keel_status status = launch(stream, kernel, blocks, arguments, static_cast<uint32_t>(slices));
  if (slices == 1) return status;
  if (status == KEEL_OK) {
    status = sum_slices(stream, arguments.dgamma, dgamma, rows.columns, slices);
  }
  if (status == KEEL_OK && dbeta != nullptr) {
    status = sum_slices(stream, arguments.dbeta, *dbeta, rows.columns, slices);
  }
  return status;
}

// layer_norm has a mean and dbeta, rms_norm neither.
keel_status run_norm_backward(Stream& stream, const keel_op_call& call, void* workspace) {
  const Rows rows(*call.inputs[0]);
  if (rows.columns == 0) return KEEL_OK;
  const bool has_mean = call.output_count == 3;
  const simt::Address mean = has_mean ? address_of(*call.inputs[3]) : 0;
  const simt::Address rstd = address_of(*call.inputs[has_mean ? 4 : 3]);
  if (rows.count == 0) {
    const float zero = 0;
    keel_status status = KEEL_OK;
    for (uint32_t o = 1; o < call.output_count && status == KEEL_OK; ++o) {
      status = stream.fill(kit::first_element(*call.outputs[o]), &zero, sizeof(zero),
                           kit::span_bytes(*call.outputs[o]));
    }
    return status;
  }
  // Runs first, because dx may be dy.
  const keel_status status = sum_columns(stream, call, rows, mean, rstd, workspace);
  if (status != KEEL_OK) return status;
  return launch_rows(
      stream, kNormBackward.of(call.inputs[0]->dtype), rows,
      simt::NormBackwardArguments{address_of(*call.inputs[0]), address_of(*call.inputs[1]),
                                  address_of(*call.inputs[2]), mean, rstd,
                                  address_of(*call.outputs[0]), rows.count, rows.columns});
}

// ---- softmax -----------------------------------------------------------------------

constexpr ByDtype<RowKernels> kSoftmax = {
    {KernelId::softmax_f32_warp, KernelId::softmax_f32_block},
    {KernelId::softmax_bf16_warp, KernelId::softmax_bf16_block},
    {KernelId::softmax_f16_warp, KernelId::softmax_f16_block}};
constexpr ByDtype<RowKernels> kSoftmaxBackward = {
    {KernelId::softmax_backward_f32_warp, KernelId::softmax_backward_f32_block},
    {KernelId::softmax_backward_bf16_warp, KernelId::softmax_backward_bf16_block},
    {KernelId::softmax_backward_f16_warp, KernelId::softmax_backward_f16_block}};

keel_status run_softmax(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& x = *call.inputs[0];
  const keel_tensor* const mask = call.inputs[1];
  const Rows rows(x);
  if (rows.count == 0) return KEEL_OK;
  const uint64_t mask_rows = mask == nullptr ? 0 : Rows(*mask).count;
  return launch_rows(
      stream, kSoftmax.of(x.dtype), rows,
      simt::SoftmaxArguments{
          address_of(x), address_or_none(mask), address_of(*call.outputs[0]), rows.count,
          rows.columns, static_cast<uint64_t>(x.shape[x.rank - 2]), mask_rows,
          static_cast<float>(kit::attributes<keel_op_softmax_attributes>(call).scale),
          static_cast<uint32_t>(kit::attributes<keel_op_softmax_attributes>(call).causal)});
}

keel_status run_softmax_backward(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& y = *call.inputs[0];
  const Rows rows(y);
  if (rows.count == 0) return KEEL_OK;
  return launch_rows(
      stream, kSoftmaxBackward.of(y.dtype), rows,
      simt::SoftmaxBackwardArguments{
          address_of(y), address_of(*call.inputs[1]), address_of(*call.outputs[0]), rows.count,
          rows.columns,
          static_cast<float>(kit::attributes<keel_op_softmax_backward_attributes>(call).scale), 0});
}

}  // namespace

const Op kLayerNormOp = {"simt.layer_norm", is_dense_float_call, nullptr, run_layer_norm};
const Op kLayerNormBackwardOp = {"simt.layer_norm_backward", is_dense_float_call,
                                 norm_backward_workspace, run_norm_backward};
const Op kRmsNormOp = {"simt.rms_norm", is_dense_float_call, nullptr, run_rms_norm};
const Op kRmsNormBackwardOp = {"simt.rms_norm_backward", is_dense_float_call,
                               norm_backward_workspace, run_norm_backward};
const Op kSoftmaxOp = {"simt.softmax", is_dense_float_call, nullptr, run_softmax};
const Op kSoftmaxBackwardOp = {"simt.softmax_backward", is_dense_float_call, nullptr,
                               run_softmax_backward};

}  // namespace keel::gpu
