// SPDX-License-Identifier: Apache-2.0
// cast_scaled: converts to the 8-bit float types and back, with a scale read at execution.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <keel/plugin_kit.hpp>
#include <keel/rows.hpp>

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/ops/ops.h"

namespace keel::cpu {
namespace {

// Elements of a piece that one core processes, about 50 us.
constexpr int64_t kPiece = int64_t{1} << 16;
// Elements converted to float32 at a time.
constexpr int64_t kBlock = 2048;

bool is_float8(keel_dtype dtype) {
  return dtype == KEEL_FLOAT8_E4M3FN || dtype == KEEL_FLOAT8_E5M2;
}

struct Elements {
  char* data;
  keel_dtype dtype;

  char* at(int64_t i) const { return data + i * int64_t{kit::dtype_size(dtype)}; }
};

// |count| elements of x from |i| on as float32: in place, or converted into |room|.
const float* widened(const Elements& x, int64_t i, int64_t count, float* room) {
  if (x.dtype == KEEL_FLOAT32) return reinterpret_cast<const float*>(x.at(i));
  if (is_float8(x.dtype)) {
    kernels::float8_to_f32(x.dtype, reinterpret_cast<const uint8_t*>(x.at(i)), room, count);
  } else {
    kernels::cast_function(x.dtype, KEEL_FLOAT32)(x.at(i), room, count);
  }
  return room;
}

void store_scaled(const Elements& y, int64_t i, int64_t count, const float* x, float scale) {
  if (is_float8(y.dtype)) {
    kernels::scale_to_float8(y.dtype, x, scale, reinterpret_cast<uint8_t*>(y.at(i)), count);
  } else if (y.dtype == KEEL_FLOAT32) {
    kernels::scale_f32(x, scale, reinterpret_cast<float*>(y.at(i)), count);
  } else {
    std::array<float, kBlock> scaled;
    kernels::scale_f32(x, scale, scaled.data(), count);
    kernels::cast_function(KEEL_FLOAT32, y.dtype)(scaled.data(), y.at(i), count);
  }
}

// The largest value found by several cores, independent of the order of their results.
class Largest {
 public:
  void add(uint32_t bits) {
    uint32_t before = bits_.load(std::memory_order_relaxed);
    while (before < bits && !bits_.compare_exchange_weak(before, bits)) {
    }
  }
  // Returns every NaN as the quiet NaN.
  float value() const {
    constexpr uint32_t kInfinity = 0x7f800000;
    const uint32_t bits = bits_.load();
    return std::bit_cast<float>(bits > kInfinity ? 0x7fc00000u : bits);
  }

 private:
  std::atomic<uint32_t> bits_{0};  // of a magnitude: ordered as they are, NaN above all
};

OpSupport cast_scaled_query(const keel_op_call& call) {
  const bool runs = find_rows(*call.inputs[0]) && kit::is_contiguous(*call.outputs[0]);
  return {runs ? "cast_scaled" : nullptr};
}

void cast_scaled_run(Stream& stream, const keel_op_call& call, void*) {
  const Elements x = {address<char>(stream, *call.inputs[0]), call.inputs[0]->dtype};
  const Elements y = {address<char>(stream, *call.outputs[0]), call.outputs[0]->dtype};
  const auto* const scale = address<const float>(stream, *call.inputs[1]);
  auto* const amax = address<float>(stream, *call.outputs[1]);
  const Rows rows = *find_rows(*call.inputs[0]);
  const int64_t count = kit::element_count(*call.inputs[0]);
  stream.enqueue([=](ThreadPool& pool) -> keel_status {
    const float factor = *scale;
    Largest largest;
    pool.parallel_for(count, kPiece, [&](int64_t begin, int64_t end) {
      std::array<float, kBlock> room;
      uint32_t own = 0;
      for (int64_t i = begin; i < end;) {
        const int64_t column = i % rows.columns;
        const int64_t some = std::min({kBlock, end - i, rows.columns - column});
        const int64_t from = i / rows.columns * rows.step + column;
        const float* const wide = widened(x, from, some, room.data());
        own = std::max(own, kernels::largest_magnitude_f32(wide, some));
        store_scaled(y, i, some, wide, factor);
        i += some;
      }
      largest.add(own);
    });
    *amax = largest.value();
    return KEEL_OK;
  });
}

}  // namespace

const Operator kCastScaledOperator = {cast_scaled_query, cast_scaled_run};

}  // namespace keel::cpu
