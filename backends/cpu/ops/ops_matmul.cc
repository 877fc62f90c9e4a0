// SPDX-License-Identifier: Apache-2.0
// matmul: c = activation(alpha * op(a) op(b) + beta * c + bias); packed_matmul, the same with
// weights packed by ops_packed.cc; and batched_matmul, many products without bias and activation.
#include <algorithm>
#include <keel/packed_weights.hpp>
#include <keel/plugin_kit.hpp>

#include "backends/cpu/gemm/gemm_bf16.h"
#include "backends/cpu/gemm/gemm_blocks.h"
#include "backends/cpu/gemm/matmul_tile.h"
#include "backends/cpu/ops/ops.h"

namespace keel::cpu {
namespace {

using gemm::Matrix;
using gemm::Product;

// Describes a call except for the addresses of its tensors.
bool describe(const keel_op_call& call, Tile* out_tile) {
  const keel_tensor& a = *call.inputs[0];
  const keel_tensor& b = *call.inputs[1];
  const keel_tensor& c = *call.outputs[0];
  const keel_tensor* const bias = call.input_count > 2 ? call.inputs[2] : nullptr;
  const bool known = a.dtype == KEEL_FLOAT32 || a.dtype == KEEL_BFLOAT16 || a.dtype == KEEL_FLOAT16;
  if (!known || b.dtype != a.dtype || (c.dtype != a.dtype && c.dtype != KEEL_FLOAT32)) {
    return false;
  }
  // The bias of a 16-bit product with a float32 result may have either dtype.
  if (bias != nullptr &&
      (!kit::is_contiguous(*bias) || (bias->dtype != a.dtype && bias->dtype != c.dtype))) {
    return false;
  }
  Tile tile;
  Product& product = tile.product;
  // The first attributes of matmul are those of batched_matmul.
  const auto attributes = kit::attributes<keel_op_batched_matmul_attributes>(call);
  const bool transposed_a = attributes.trans_a != 0;
  const bool transposed_b = attributes.trans_b != 0;
  if (!describe_matrix(a, transposed_a, &product.a) ||
      !describe_matrix(b, transposed_b, &product.b) ||
      !describe_matrix(c, /*transposed=*/false, &product.c) || product.c.transposed) {
    return false;
  }
  product.m = c.shape[0];
  product.n = c.shape[1];
  product.k = a.shape[transposed_a ? 0 : 1];
  product.alpha = static_cast<float>(attributes.alpha);
  product.beta = static_cast<float>(attributes.beta);
  tile.dtype = a.dtype;
  tile.c_dtype = c.dtype;
  if (bias != nullptr) tile.bias_dtype = bias->dtype;
  if (call.op == KEEL_OP_MATMUL) {
    tile.activation =
        static_cast<Activation>(kit::attributes<keel_op_matmul_attributes>(call).activation);
  }
  *out_tile = tile;
  return true;
}

OpSupport matmul_query(const keel_op_call& op_call) {
  Tile tile;
  if (!describe(op_call, &tile)) return {};
  if (is_widened(tile.dtype)) return {"matmul_widened"};
  return {tile.dtype == KEEL_BFLOAT16 ? "matmul_bf16" : "matmul"};
}

// ---- tiles -------------------------------------------------------------------

struct Grid {
  int64_t rows = 1, columns = 1;            // of tiles
  int64_t tile_rows = 0, tile_columns = 0;  // elements of a tile
};

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

bool is_native_bf16(const Tile& tile) {
  return tile.dtype == KEEL_BFLOAT16 && !is_widened(tile.dtype);
}

// Columns of a tile are multiples of two vectors, which are computed at once, or of a panel.
constexpr int64_t kUnit = 32;
int64_t unit_of(const Matrix& b) {
  return b.panel == 0 ? kUnit : b.stride;
}

// Estimated cost of a tile: its multiplications, and its reads of a and b. A packed b costs half as
// much again; a b read in place costs half, since it is read along with the products. An a costs
// three times as much if it is packed, line by line, or if many parts of b read it in place:
// splitting 2048 x 2048 x 2048 by rows takes 2 to 4 % less in both cases.
int64_t work_of(const Tile& whole, int64_t rows, int64_t columns) {
  Product tile = whole.product;
  const int64_t multiplied = rows * columns * (tile.k + 64);
  if (is_native_bf16(whole)) {
    // oneDNN is fast only with all of b: 512 x 512 x 512 with AMX takes 1.65 times as long with
    // columns cut out of b, and so does a b of few columns. For few rows, cutting is no worse than
    // packing all of b twice.
    constexpr int64_t kManyRows = 192;
    constexpr int64_t kFewColumns = 64;
    const bool is_cut_out = columns < tile.n && tile.b.panel == 0 && !tile.b.transposed &&
                            (rows >= kManyRows || columns < kFewColumns);
    return (multiplied + (rows + columns) * tile.k) / 8 * (is_cut_out ? 13 : 8);
  }
  tile.m = rows;
  tile.n = columns;
  const gemm::Blocks blocks = gemm::blocks_of(tile, kUnit);
  constexpr int64_t kManyParts = 3;
  const bool is_a_read_often = !blocks.packs_a && columns > (kManyParts - 1) * blocks.columns;
  const int64_t a_cost = blocks.packs_a || is_a_read_often ? 6 : 2;
  const int64_t b_cost = blocks.packs_b ? 3 : 1;
  return multiplied + (a_cost * rows + b_cost * columns) * tile.k / 2;
}

// Multiply-adds that take a core 10 us.
constexpr int64_t kLong = 1000000;

// The least work worth a helper: 2.5 us of a core, independent of the instruction set. AMX tiles
// need a tenth of the time for the product itself.
int64_t least_work_to_cut(const Tile& whole) {
  return is_native_bf16(whole) && gemm::has_bf16_tiles() ? 2 * kLong : kLong / 4;
}

// One tile per core, of the shape with the lowest cost; of two equal shapes the one that does not
// split b. A product that is too brief stays whole.
Grid cut(const Tile& whole, int cores) {
  const Product& product = whole.product;
  Grid best = {1, 1, product.m, product.n};
  if (product.m * product.n * product.k < least_work_to_cut(whole)) return best;
  int64_t least = INT64_MAX;
  for (int64_t rows = 1; rows <= cores; ++rows) {
    if (cores % rows != 0) continue;
    const int64_t tile_rows = (product.m + rows - 1) / rows;
    const int64_t columns = cores / rows;
    const int64_t tile_columns =
        std::min(product.n, round_up((product.n + columns - 1) / columns, unit_of(product.b)));
    // The largest tile determines the duration of the product.
    const int64_t work = work_of(whole, tile_rows, tile_columns);
    if (work <= least) {
      least = work;
      best = {(product.m + tile_rows - 1) / tile_rows,
              (product.n + tile_columns - 1) / tile_columns, tile_rows, tile_columns};
    }
  }
  return best;
}

// Products of one shape; strides in elements between the matrices of consecutive products.
struct Batch {
  int64_t count = 1;
  int64_t a = 0, b = 0, c = 0;
};

// The data of a call that outlives its tensors; trivially copyable for the queue.
struct Work {
  Tile first;
  Batch batch;

  // Product number |index| of the batch.
  Tile one(int64_t index) const {
    const auto move = [&](Matrix& matrix, int64_t stride, keel_dtype of) {
      matrix.data = static_cast<char*>(matrix.data) + index * stride * kit::dtype_size(of);
    };
    Tile result = first;
    move(result.product.a, batch.a, first.dtype);
    move(result.product.b, batch.b, first.dtype);
    move(result.product.c, batch.c, first.c_dtype);
    return result;
  }
};

// Products that a core computes at once: small products are grouped to 2 MFLOP.
int64_t products_of_a_piece(const Product& product) {
  const int64_t work = product.m * product.n * std::max<int64_t>(1, product.k);
  return std::max<int64_t>(1, 1000000 / work);
}

keel_status multiply(ThreadPool& pool, const Work& work) {
  const Product& product = work.first.product;
  const int64_t batch = work.batch.count;
  // In a batch of fewer products than cores, several cores share each product.
  const auto cores = static_cast<int>((pool.cores() + batch - 1) / batch);
  const Grid grid = cut(work.first, cores);
  const int64_t tiles = grid.rows * grid.columns;
  const int64_t piece = batch == 1 || tiles > 1 ? 1 : products_of_a_piece(product);
  const bool is_brief = batch * product.m * product.n * product.k < kLong;
  const auto multiply_piece = [&](int64_t begin, int64_t end) -> keel_status {
    for (int64_t index = begin; index < end; ++index) {
      const int64_t row = index % tiles / grid.columns * grid.tile_rows;
      const int64_t column = index % grid.columns * grid.tile_columns;
      const keel_status status =
          multiply_tile(work.one(index / tiles)
                            .part(row, column, std::min(grid.tile_rows, product.m - row),
                                  std::min(grid.tile_columns, product.n - column)));
      if (status != KEEL_OK) return status;
    }
    return KEEL_OK;
  };
  return pool.try_for(batch * tiles, piece, multiply_piece,
                      is_brief ? ThreadPool::Pieces::kBrief : ThreadPool::Pieces::kLong);
}

void run(Stream& stream, const keel_op_call& op_call, Tile tile, const Batch& batch) {
  tile.product.a.data = address<void>(stream, *op_call.inputs[0]);
  tile.product.b.data = address<void>(stream, *op_call.inputs[1]);
  tile.product.c.data = address<void>(stream, *op_call.outputs[0]);
  if (tile.is_biased()) tile.bias = address<void>(stream, *op_call.inputs[2]);
  const Work work = {tile, batch};
  // Products of bfloat16 may be a library's, which has threads of its own.
  const int64_t nanoseconds =
      tile.dtype == KEEL_FLOAT32
          ? batch.count * tile.product.m * tile.product.n * std::max<int64_t>(1, tile.product.k) / 8
          : INT64_MAX;
  stream.enqueue([=](ThreadPool& pool) { return multiply(pool, work); }, nanoseconds);
}

void matmul_run(Stream& stream, const keel_op_call& op_call, void*) {
  Tile tile;
  if (!describe(op_call, &tile) || tile.product.m == 0 || tile.product.n == 0) return;
  run(stream, op_call, tile, {});
}

// ---- packed weights --------------------------------------------------------------

// If the weights are in panels the tile describes the panels; otherwise the weights are as matmul
// takes them.
bool describe_packed(const PackedAsMatmul& call, Tile* out_tile) {
  if (!describe(call.call(), out_tile)) return false;
  const Product& product = out_tile->product;
  out_tile->product.b = packed_order(out_tile->dtype, product.k, product.n);
  return true;
}

OpSupport packed_matmul_query(const keel_op_call& op_call) {
  Tile tile;
  if (!describe_packed(PackedAsMatmul(op_call), &tile)) return {};
  if (is_widened(tile.dtype)) return {"packed_matmul_widened"};
  return {tile.dtype == KEEL_BFLOAT16 ? "packed_matmul_bf16" : "packed_matmul"};
}

void packed_matmul_run(Stream& stream, const keel_op_call& op_call, void*) {
  Tile tile;
  const PackedAsMatmul as_matmul(op_call);
  if (!describe_packed(as_matmul, &tile) || tile.product.m == 0 || tile.product.n == 0) return;
  run(stream, as_matmul.call(), tile, {});
}

// ---- batches -------------------------------------------------------------------

// Any matrix of a batch: the matrices differ only in their addresses.
keel_tensor matrix_of(const keel_tensor& tensor) {
  keel_tensor matrix = tensor;
  matrix.rank = 2;
  for (uint32_t axis = 0; axis < 2; ++axis) {
    matrix.shape[axis] = tensor.shape[axis + 1];
    matrix.strides[axis] = tensor.strides[axis + 1];
  }
  return matrix;
}

bool describe_batched(const keel_op_call& call, Tile* out_tile) {
  if (call.inputs[0]->rank != 3) return false;
  const keel_tensor a = matrix_of(*call.inputs[0]);
  const keel_tensor b = matrix_of(*call.inputs[1]);
  const keel_tensor c = matrix_of(*call.outputs[0]);
  const keel_tensor* const inputs[] = {&a, &b, /*bias=*/nullptr};
  const keel_tensor* const outputs[] = {&c};
  keel_op_call one = call;
  one.input_count = 3;
  one.inputs = inputs;
  one.outputs = outputs;
  return describe(one, out_tile);
}

OpSupport batched_matmul_query(const keel_op_call& op_call) {
  Tile tile;
  if (!describe_batched(op_call, &tile)) return {};
  if (is_widened(tile.dtype)) return {"batched_matmul_widened"};
  return {tile.dtype == KEEL_BFLOAT16 ? "batched_matmul_bf16" : "batched_matmul"};
}

void batched_matmul_run(Stream& stream, const keel_op_call& op_call, void*) {
  Tile tile;
  if (!describe_batched(op_call, &tile) || kit::element_count(*op_call.outputs[0]) == 0) return;
  run(stream, op_call, tile,
      {op_call.outputs[0]->shape[0], op_call.inputs[0]->strides[0], op_call.inputs[1]->strides[0],
       op_call.outputs[0]->strides[0]});
}

}  // namespace

const Operator kMatmulOperator = {matmul_query, matmul_run};
const Operator kPackedMatmulOperator = {packed_matmul_query, packed_matmul_run};
const Operator kBatchedMatmulOperator = {batched_matmul_query, batched_matmul_run};

}  // namespace keel::cpu
