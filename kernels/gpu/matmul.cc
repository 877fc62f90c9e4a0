// SPDX-License-Identifier: Apache-2.0
// matmul and batched matmul through shared memory: a block computes a tile of 64 x 64, a thread 4 x
// 4 of the tile. A plain kernel without tensor cores, for systems without the vendor's library.
// Also the epilogue of a product that the library has summed.
#include "kernels/gpu/gelu.h"
#include "kernels/gpu/sigmoid.h"
#include "kernels/gpu/simt.h"

namespace keel::simt {
namespace {

constexpr uint32_t kTile = kMatmulTile;
constexpr uint32_t kDepth = 16;         // depth along k in shared memory
constexpr uint32_t kPitch = kTile + 4;  // rows begin in different banks
constexpr uint32_t kSide = 16;          // threads along a side of the tile
constexpr uint32_t kOwn = kTile / kSide;
// Number of products summed plainly before the accumulators add the partial sum.
constexpr uint64_t kPlain = 64;
static_assert(kSide * kSide == kThreads);

// Loads the part [kTile, kDepth] of a matrix at (from, k), with strides |outer| and |inner|, into
// |tile|, [kDepth, kTile]; zeroes past the matrix's ends.
template <typename T, typename Tile>
KEEL_SIMT_FUNCTION void load_tile(const Global<const T>& matrix, uint64_t from, uint64_t extent,
                                  uint64_t outer, uint64_t k, uint64_t depth, uint64_t inner,
                                  Tile& tile) {
  for (uint32_t i = thread_index().x; i < kTile * kDepth; i += kThreads) {
    // Adjacent threads read adjacent elements, along the contiguous axis.
    const bool along_k = inner == 1;
    const uint32_t row = along_k ? i / kDepth : i % kTile;
    const uint32_t step = along_k ? i % kDepth : i / kTile;
    float value = 0;
    if (from + row < extent && k + step < depth) {
      value = to_float(matrix[(from + row) * outer + (k + step) * inner]);
    }
    tile[step * kPitch + row] = value;
  }
}

KEEL_SIMT_FUNCTION float activated(uint32_t activation, float sum) {
  switch (activation) {
    case kGeluByTanh:
      return gelu_of(sum);
    case kGeluByErf:
      return gelu_by_erf(sum);
    case kSilu:
      return silu(sum);
    default:
      return sum;
  }
}

template <typename In, typename Out>
KEEL_SIMT_FUNCTION void matmul(const MatmulArguments& args) {
  KEEL_SIMT_SHARED(float, a_tile, kDepth* kPitch);
  KEEL_SIMT_SHARED(float, b_tile, kDepth* kPitch);
  const Global<const In> a(args.a);
  const Global<const In> b(args.b);
  const uint64_t tiles_across = (args.n + kTile - 1) / kTile;
  const uint64_t first_row = block_index().x / tiles_across * kTile;
  const uint64_t first_column = block_index().x % tiles_across * kTile;
  const uint32_t own_row = thread_index().x / kSide * kOwn;
  const uint32_t own_column = thread_index().x % kSide * kOwn;
  Accumulator sums[kOwn][kOwn];
  for (uint64_t begin = 0; begin < args.k; begin += kPlain) {
    float part[kOwn][kOwn] = {};
    for (uint64_t k = begin; k < begin + kPlain && k < args.k; k += kDepth) {
      barrier();  // all threads have read the previous tiles
      load_tile(a, first_row, args.m, args.a_row, k, args.k, args.a_column, a_tile);
      load_tile(b, first_column, args.n, args.b_column, k, args.k, args.b_row, b_tile);
      barrier();
      for (uint32_t step = 0; step < kDepth; ++step) {
        float left[kOwn];
        float right[kOwn];
        for (uint32_t i = 0; i < kOwn; ++i) left[i] = a_tile[step * kPitch + own_row + i];
        for (uint32_t j = 0; j < kOwn; ++j) right[j] = b_tile[step * kPitch + own_column + j];
        for (uint32_t i = 0; i < kOwn; ++i) {
          for (uint32_t j = 0; j < kOwn; ++j) part[i][j] = fmaf(left[i], right[j], part[i][j]);
        }
      }
    }
    for (uint32_t i = 0; i < kOwn; ++i) {
      for (uint32_t j = 0; j < kOwn; ++j) sums[i][j].add(part[i][j]);
    }
  }
  const Global<Out> c(args.c);
  const Global<const In> bias(args.bias);
  for (uint32_t i = 0; i < kOwn; ++i) {
    const uint64_t row = first_row + own_row + i;
    if (row >= args.m) break;
    for (uint32_t j = 0; j < kOwn; ++j) {
      const uint64_t column = first_column + own_column + j;
      if (column >= args.n) break;
      float value = args.alpha * sums[i][j].value();
      if (args.beta != 0) value = fmaf(args.beta, to_float(c[row * args.c_row + column]), value);
      if (args.bias != 0) value += to_float(bias[column]);
      c[row * args.c_row + column] = Round<Out>::of(activated(args.activation, value));
    }
  }
}

template <typename In, typename Out>
KEEL_SIMT_FUNCTION void batched_matmul(const BatchedMatmulArguments& args) {
  MatmulArguments each = args.first;
  for (uint64_t i = block_index().y; i < args.batch; i += grid_size().y) {
    each.a = args.first.a + i * args.a_batch * sizeof(In);
    each.b = args.first.b + i * args.b_batch * sizeof(In);
    each.c = args.first.c + i * args.c_batch * sizeof(Out);
    matmul<In, Out>(each);
  }
}

// |In|: the type of the bias.
template <typename In, typename Out>
KEEL_SIMT_FUNCTION void matmul_end(const MatmulEndArguments& args) {
  const Global<const float> sums(args.sums);
  const Global<const In> bias(args.bias);
  const Global<Out> c(args.c);
  for_each<4>(args.rows * args.columns, args.is_aligned != 0, [&](auto lanes, uint64_t i) {
    constexpr int n = decltype(lanes)::value;
    const uint64_t row = i / args.columns;
    const uint64_t column = i % args.columns;
    const Lanes<float, n> sum = sums.template load<n>(row * args.sums_row + column);
    Lanes<In, n> offset = {};
    Lanes<Out, n> value = {};
    if (args.bias != 0) offset = bias.template load<n>(column);
    if (args.beta != 0) value = c.template load<n>(row * args.c_row + column);
    for (int lane = 0; lane < n; ++lane) {
      float t = sum.at[lane];
      if (args.beta != 0) t = fmaf(args.beta, to_float(value.at[lane]), t);
      if (args.bias != 0) t += to_float(offset.at[lane]);
      value.at[lane] = Round<Out>::of(activated(args.activation, t));
    }
    c.template store<n>(row * args.c_row + column, value);
  });
}

}  // namespace
}  // namespace keel::simt

#define KEEL_SIMT_MATMUL(types, In, Out)                                         \
  KEEL_SIMT_KERNEL(matmul_##types, keel::simt::MatmulArguments) {                \
    keel::simt::matmul<In, Out>(args);                                           \
  }                                                                              \
  KEEL_SIMT_KERNEL(batched_matmul_##types, keel::simt::BatchedMatmulArguments) { \
    keel::simt::batched_matmul<In, Out>(args);                                   \
  }                                                                              \
  KEEL_SIMT_KERNEL(matmul_end_##types, keel::simt::MatmulEndArguments) {         \
    keel::simt::matmul_end<In, Out>(args);                                       \
  }
KEEL_SIMT_MATMUL(f32, float, float)
KEEL_SIMT_MATMUL(bf16, keel::simt::bf16, keel::simt::bf16)
KEEL_SIMT_MATMUL(bf16_f32, keel::simt::bf16, float)
KEEL_SIMT_MATMUL(f16, keel::simt::f16, keel::simt::f16)
KEEL_SIMT_MATMUL(f16_f32, keel::simt::f16, float)
#undef KEEL_SIMT_MATMUL
