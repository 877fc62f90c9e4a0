// SPDX-License-Identifier: Apache-2.0
// sum_of_squares and clip: the norm of a gradient, and clipping by the norm.
#include <algorithm>
#include <array>
#include <cmath>
#include <keel/plugin_kit.hpp>

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/ops/ops.h"

namespace keel::cpu {
namespace {

// Elements of a piece that one core processes, about 30 us.
constexpr int64_t kPiece = int64_t{1} << 16;

bool is_float(keel_dtype dtype) {
  return dtype == KEEL_FLOAT32 || dtype == KEEL_FLOAT16 || dtype == KEEL_BFLOAT16;
}

// ---- sum of squares ------------------------------------------------------------

OpSupport sum_of_squares_query(const keel_op_call& call) {
  const keel_tensor& x = *call.inputs[0];
  return {is_float(x.dtype) && kit::is_contiguous(x) ? "sum_of_squares" : nullptr};
}

struct Squares {
  double sum = 0;
  bool found = false;  // an element that is no finite number

  void add(const float* x, int64_t count) {
    const double part = kernels::sum_of_squares_f32(x, count);
    sum += part;
    // Squares of finite numbers may overflow too, so only the elements decide.
    found |= !std::isfinite(part) &&
             !std::all_of(x, x + count, [](float value) { return std::isfinite(value); });
  }
};

Squares squares_of(const void* x, keel_dtype dtype, int64_t begin, int64_t end) {
  Squares result;
  if (dtype == KEEL_FLOAT32) {
    result.add(static_cast<const float*>(x) + begin, end - begin);
    return result;
  }
  constexpr int64_t kBlock = 2048;
  std::array<float, kBlock> wide;
  const auto widen = kernels::cast_function(dtype, KEEL_FLOAT32);
  for (int64_t i = begin; i < end; i += kBlock) {
    const int64_t count = std::min(kBlock, end - i);
    widen(static_cast<const uint16_t*>(x) + i, wide.data(), count);
    result.add(wide.data(), count);
  }
  return result;
}

// Sums in a number of segments that depends on the length alone, so that the result does not depend
// on the number of cores.
Squares squares_of(ThreadPool& pool, const void* x, keel_dtype dtype, int64_t count) {
  constexpr int64_t kSegments = 64;
  const int64_t segment = std::max(kPiece, (count + kSegments - 1) / kSegments);
  std::array<Squares, kSegments> partial;
  pool.parallel_for(count, segment, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += segment) {
      partial[static_cast<size_t>(i / segment)] =
          squares_of(x, dtype, i, std::min(i + segment, end));
    }
  });
  Squares all;
  for (const Squares& part : partial) {
    all.sum += part.sum;
    all.found |= part.found;
  }
  return all;
}

void sum_of_squares_run(Stream& stream, const keel_op_call& call, void*) {
  const auto* const x = address<const void>(stream, *call.inputs[0]);
  const auto* const before =
      call.inputs[1] == nullptr ? nullptr : address<const float>(stream, *call.inputs[1]);
  auto* const total = address<float>(stream, *call.outputs[0]);
  auto* const found = address<int32_t>(stream, *call.outputs[1]);
  const keel_dtype dtype = call.inputs[0]->dtype;
  const int64_t count = kit::element_count(*call.inputs[0]);
  const auto work = [=](ThreadPool& pool) -> keel_status {
    Squares squares = squares_of(pool, x, dtype, count);
    if (before != nullptr) {
      squares.sum += static_cast<double>(*before);
      squares.found |= !std::isfinite(*before);
    }
    *total = static_cast<float>(squares.sum);
    *found = squares.found ? 1 : 0;
    return KEEL_OK;
  };
  stream.enqueue(work, /*nanoseconds=*/count);
}

// ---- clip ------------------------------------------------------------------------

OpSupport clip_query(const keel_op_call& call) {
  const keel_tensor& g = *call.inputs[0];
  const bool runs =
      is_float(g.dtype) && kit::is_contiguous(g) && kit::is_contiguous(*call.outputs[0]);
  return {runs ? "clip" : nullptr};
}

float clip_factor(float max_norm, float sum_of_squares) {
  const float factor = max_norm / (std::sqrt(sum_of_squares) + 1e-6f);
  return factor > 1.0f ? 1.0f : factor;  // NaN stays
}

void clip_run(Stream& stream, const keel_op_call& call, void*) {
  const auto* const g = address<const char>(stream, *call.inputs[0]);
  const auto* const sum = address<const float>(stream, *call.inputs[1]);
  auto* const g_out = address<char>(stream, *call.outputs[0]);
  const keel_dtype dtype = call.inputs[0]->dtype;
  const int64_t size = kit::dtype_size(dtype);
  const int64_t count = kit::element_count(*call.inputs[0]);
  const auto max_norm = static_cast<float>(kit::attributes<keel_op_clip_attributes>(call).max_norm);
  const auto work = [=](ThreadPool& pool) -> keel_status {
    // Read when the work runs: earlier work of the stream computes the value.
    const float factor = clip_factor(max_norm, *sum);
    pool.parallel_for(count, kPiece, [=](int64_t begin, int64_t end) {
      const char* const from = g + begin * size;
      char* const to = g_out + begin * size;
      if (dtype == KEEL_FLOAT32) {
        kernels::scale_f32(reinterpret_cast<const float*>(from), factor,
                           reinterpret_cast<float*>(to), end - begin);
      } else {
        kernels::scale_16(dtype, from, factor, to, end - begin);
      }
    });
    return KEEL_OK;
  };
  stream.enqueue(work, /*nanoseconds=*/count / 2);
}

}  // namespace

const Operator kSumOfSquaresOperator = {sum_of_squares_query, sum_of_squares_run};
const Operator kClipOperator = {clip_query, clip_run};

}  // namespace keel::cpu
