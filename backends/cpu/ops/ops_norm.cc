// SPDX-License-Identifier: Apache-2.0
// layer_norm, rms_norm, softmax and their gradients: operators on rows along the last axis.
#include <algorithm>
#include <cmath>
#include <keel/plugin_kit.hpp>

#include "backends/cpu/kernels/kernels_norm.h"
#include "backends/cpu/ops/float_call.h"
#include "backends/cpu/runtime/scratch.h"

namespace keel::cpu {
namespace {

using kernels::ReadFloats;
using kernels::WrittenFloats;

// Elements of a piece that one core processes: some 50 us.
constexpr int64_t kPiece = int64_t{1} << 16;

struct Rows {
  explicit Rows(const keel_tensor& tensor)
      : columns(tensor.shape[tensor.rank - 1]),
        count(columns == 0 ? 0 : kit::element_count(tensor) / columns) {}

  // Rows per piece.
  int64_t grain() const { return std::max<int64_t>(1, kPiece / std::max<int64_t>(1, columns)); }

  int64_t columns;
  int64_t count;
};

// Enqueues body(first, last) for pieces of all |rows|.
template <typename Body>
void enqueue_pieces(Stream& stream, const Rows& rows, const Body& body) {
  const auto work = [=](ThreadPool& pool) -> keel_status {
    return pool.try_for(rows.count, rows.grain(), [&](int64_t first, int64_t last) -> keel_status {
      body(first, last);
      return KEEL_OK;
    });
  };
  stream.enqueue(work, /*nanoseconds=*/2 * rows.count * rows.columns);
}

// Enqueues body(row) for all |rows|.
template <typename Body>
void enqueue_rows(Stream& stream, const Rows& rows, const Body& body) {
  enqueue_pieces(stream, rows, [=](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) body(row);
  });
}

// ---- layer_norm, rms_norm ------------------------------------------------------

// Whether |spread|, the sum of a variance and eps, was computed from squares within the range of
// float32.
bool is_of_float32(double spread) {
  return spread >= 0x1p-90 && spread <= 0x1p127;
}

// The factors that normalise a row of x. If deviations or rstd leave the range of float32, elements
// are scaled: down to at most 2^48, or up from 2^-20.
kernels::NormFactors factors_of(double mean, double spread) {
  double scale = 1;
  if (spread < 0x1p-90) {
    if (std::abs(mean) < 0x1p-20) scale = 0x1p80;
  } else if (!is_of_float32(spread)) {
    scale = 0x1p-80;
  }
  const double rstd = 1 / std::sqrt(spread) / scale;
  const auto rounded_mean = static_cast<float>(mean * scale);
  // The shift restores the rounding error of the mean, which may be as large as a row's deviations.
  const double shift = (static_cast<double>(rounded_mean) - mean * scale) * rstd;
  return {.mean = rounded_mean,
          .rstd = static_cast<float>(rstd),
          .scale = static_cast<float>(scale),
          .shift = static_cast<float>(shift)};
}

OpSupport layer_norm_query(const keel_op_call& call) {
  return {is_dense_float_call(call) ? "layer_norm" : nullptr};
}

void layer_norm_run(Stream& stream, const keel_op_call& call, void*) {
  const ReadFloats x = read(stream, call.inputs[0]);
  const ReadFloats gamma = read(stream, call.inputs[1]);
  const ReadFloats beta = read(stream, call.inputs[2]);
  const WrittenFloats y = written(stream, *call.outputs[0]);
  auto* const mean = address<float>(stream, *call.outputs[1]);
  auto* const rstd = address<float>(stream, *call.outputs[2]);
  const double eps = kit::attributes<keel_op_layer_norm_attributes>(call).eps;
  const Rows rows(*call.inputs[0]);
  const int64_t columns = rows.columns;
  // Inputs that are read several times are widened once: a row, unless kernels load its dtype
  // directly, and per piece the parameters of the columns.
  enqueue_pieces(stream, rows, [=](int64_t first, int64_t last) {
    const auto [x_room, gamma_room, beta_room] =
        thread_floats({x.room(columns), gamma.room(columns), beta.room(columns)});
    const ReadFloats factors = gamma.widened(columns, gamma_room);
    const ReadFloats offsets = beta.widened(columns, beta_room);
    for (int64_t row = first; row < last; ++row) {
      const ReadFloats from = x.from(row * columns).loadable(columns, x_room);
      kernels::Moments moments = kernels::moments(from, columns);
      if (!is_of_float32(moments.variance + eps)) {
        moments = kernels::moments_in_float64(from, columns);
      }
      const double spread = moments.variance + eps;
      mean[row] = static_cast<float>(moments.mean);
      rstd[row] = static_cast<float>(1 / std::sqrt(spread));
      kernels::normalise(factors_of(moments.mean, spread), from, factors, offsets,
                         y.from(row * columns), columns);
    }
  });
}

OpSupport rms_norm_query(const keel_op_call& call) {
  return {is_dense_float_call(call) ? "rms_norm" : nullptr};
}

void rms_norm_run(Stream& stream, const keel_op_call& call, void*) {
  const ReadFloats x = read(stream, call.inputs[0]);
  const ReadFloats gamma = read(stream, call.inputs[1]);
  const WrittenFloats y = written(stream, *call.outputs[0]);
  auto* const rstd = address<float>(stream, *call.outputs[1]);
  const double eps = kit::attributes<keel_op_rms_norm_attributes>(call).eps;
  const Rows rows(*call.inputs[0]);
  const int64_t columns = rows.columns;
  enqueue_pieces(stream, rows, [=](int64_t first, int64_t last) {
    const auto [x_room, gamma_room] = thread_floats({x.room(columns), gamma.room(columns)});
    const ReadFloats factors = gamma.widened(columns, gamma_room);
    for (int64_t row = first; row < last; ++row) {
      const ReadFloats from = x.from(row * columns).loadable(columns, x_room);
      double spread = kernels::mean_square(from, columns) + eps;
      if (!is_of_float32(spread)) spread = kernels::mean_square_in_float64(from, columns) + eps;
      rstd[row] = static_cast<float>(1 / std::sqrt(spread));
      kernels::normalise(factors_of(0, spread), from, factors, {}, y.from(row * columns), columns);
    }
  });
}

// ---- their gradients -----------------------------------------------------------

// Splits rows into slices, whose number depends on the shape alone. Each slice has its own sums
// over the columns: dgamma's, then dbeta's. The slices, at least one, are added in order.
struct Slices {
  static constexpr int64_t kMost = 32;
  explicit Slices(const Rows& all)
      : rows(std::max({int64_t{1}, all.grain(), (all.count + kMost - 1) / kMost})),
        count(std::max<int64_t>(1, (all.count + rows - 1) / rows)) {}

  int64_t rows;  // of a slice
  int64_t count;
};

OpSupport norm_backward_query(const keel_op_call& call, const char* name) {
  if (!is_dense_float_call(call)) return {};
  const Rows rows(*call.inputs[0]);
  const int64_t sums = call.output_count - 1;
  return {.name = name,
          .workspace_bytes =
              static_cast<uint64_t>(Slices(rows).count * sums * rows.columns) * sizeof(float)};
}

OpSupport layer_norm_backward_query(const keel_op_call& call) {
  return norm_backward_query(call, "layer_norm_backward");
}

OpSupport rms_norm_backward_query(const keel_op_call& call) {
  return norm_backward_query(call, "rms_norm_backward");
}

// layer_norm has a mean and dbeta, rms_norm neither.
void norm_backward_run(Stream& stream, const keel_op_call& call, void* workspace) {
  const ReadFloats dy = read(stream, call.inputs[0]);
  const ReadFloats x = read(stream, call.inputs[1]);
  const ReadFloats gamma = read(stream, call.inputs[2]);
  const bool has_mean = call.output_count == 3;
  const auto* const mean = has_mean ? address<const float>(stream, *call.inputs[3]) : nullptr;
  const auto* const rstd = address<const float>(stream, *call.inputs[has_mean ? 4 : 3]);
  const WrittenFloats dx = written(stream, *call.outputs[0]);
  auto* const dgamma = address<float>(stream, *call.outputs[1]);
  auto* const dbeta = has_mean ? address<float>(stream, *call.outputs[2]) : nullptr;
  auto* const sums = static_cast<float*>(workspace);
  const Rows rows(*call.inputs[0]);
  const Slices slices(rows);
  const int64_t columns = rows.columns;
  const int64_t sums_of_a_slice = has_mean ? 2 * columns : columns;
  stream.enqueue([=](ThreadPool& pool) -> keel_status {
    const auto add_up = [&](int64_t begin, int64_t end) -> keel_status {
      const auto [dy_room, x_room, gamma_room] =
          thread_floats({dy.room(columns), x.room(columns), gamma.room(columns)});
      const ReadFloats gammas = gamma.widened(columns, gamma_room);
      for (int64_t slice = begin; slice < end; ++slice) {
        float* const own = sums + slice * sums_of_a_slice;
        std::fill_n(own, sums_of_a_slice, 0.0f);
        const int64_t last = std::min((slice + 1) * slices.rows, rows.count);
        for (int64_t row = slice * slices.rows; row < last; ++row) {
          const int64_t at = row * columns;
          kernels::normalise_backward({has_mean ? mean[row] : 0.0f, rstd[row]},
                                      dy.from(at).loadable(columns, dy_room),
                                      x.from(at).loadable(columns, x_room), gammas, dx.from(at),
                                      own, has_mean ? own + columns : nullptr, columns);
        }
      }
      return KEEL_OK;
    };
    const keel_status status = pool.try_for(slices.count, 1, add_up);
    if (status != KEEL_OK) return status;
    pool.parallel_for(columns, kPiece / Slices::kMost, [&](int64_t begin, int64_t end) {
      const int64_t width = end - begin;
      kernels::sum_rows_f32(sums + begin, slices.count, width, sums_of_a_slice, dgamma + begin);
      if (!has_mean) return;
      kernels::sum_rows_f32(sums + columns + begin, slices.count, width, sums_of_a_slice,
                            dbeta + begin);
    });
    return KEEL_OK;
  });
}

// ---- softmax -------------------------------------------------------------------

OpSupport softmax_query(const keel_op_call& call) {
  return {is_dense_float_call(call) ? "softmax" : nullptr};
}

void softmax_run(Stream& stream, const keel_op_call& call, void*) {
  const keel_tensor& tensor = *call.inputs[0];
  const keel_tensor* const mask_tensor = call.inputs[1];
  const ReadFloats x = read(stream, &tensor);
  const auto* const mask =
      mask_tensor == nullptr ? nullptr : address<const uint8_t>(stream, *mask_tensor);
  const int64_t mask_count = mask_tensor == nullptr ? 0 : kit::element_count(*mask_tensor);
  const WrittenFloats y = written(stream, *call.outputs[0]);
  const auto scale = static_cast<float>(kit::attributes<keel_op_softmax_attributes>(call).scale);
  const bool is_causal = kit::attributes<keel_op_softmax_attributes>(call).causal != 0;
  const Rows rows(tensor);
  const int64_t columns = rows.columns;
  const int64_t height = tensor.shape[tensor.rank - 2];
  enqueue_rows(stream, rows, [=](int64_t row) {
    const int64_t at = row * columns;
    const int64_t seen = row % height + 1 + columns - height;
    const int64_t visible = is_causal ? std::clamp<int64_t>(seen, 0, columns) : columns;
    kernels::softmax({scale, visible, mask == nullptr ? nullptr : mask + at % mask_count},
                     x.from(at), y.from(at), columns);
  });
}

OpSupport softmax_backward_query(const keel_op_call& call) {
  return {is_dense_float_call(call) ? "softmax_backward" : nullptr};
}

void softmax_backward_run(Stream& stream, const keel_op_call& call, void*) {
  const ReadFloats y = read(stream, call.inputs[0]);
  const ReadFloats dy = read(stream, call.inputs[1]);
  const WrittenFloats dx = written(stream, *call.outputs[0]);
  const auto scale =
      static_cast<float>(kit::attributes<keel_op_softmax_backward_attributes>(call).scale);
  const Rows rows(*call.inputs[0]);
  const int64_t columns = rows.columns;
  enqueue_rows(stream, rows, [=](int64_t row) {
    const int64_t at = row * columns;
    kernels::softmax_backward(scale, y.from(at), dy.from(at), dx.from(at), columns);
  });
}

}  // namespace

const Operator kLayerNormOperator = {layer_norm_query, layer_norm_run};
const Operator kLayerNormBackwardOperator = {layer_norm_backward_query, norm_backward_run};
const Operator kRmsNormOperator = {rms_norm_query, rms_norm_run};
const Operator kRmsNormBackwardOperator = {rms_norm_backward_query, norm_backward_run};
const Operator kSoftmaxOperator = {softmax_query, softmax_run};
const Operator kSoftmaxBackwardOperator = {softmax_backward_query, softmax_backward_run};

}  // namespace keel::cpu
