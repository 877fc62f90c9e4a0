// matmul: c = alpha * op(a) op(b) + beta * c + bias; and batched_matmul, many of them.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <keel/float_types.hpp>
#include <keel/plugin_kit.hpp>

#include "backends/cpu/gemm.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/ops.h"

namespace keel::cpu {
namespace {

using gemm::Matrix;
using gemm::Product;

// Describes a tensor of rank 2 of which one axis is dense. False for others.
bool describe(const keel_tensor& tensor, bool transposed, Matrix* out_matrix) {
  if (tensor.rank != 2) return false;
  const int64_t rows = tensor.shape[0];
  const int64_t columns = tensor.shape[1];
  const int64_t row_stride = tensor.strides[0];
  const int64_t column_stride = tensor.strides[1];
  // An axis of one element has no stride to speak of.
  if ((columns == 1 || column_stride == 1) && (rows == 1 || row_stride >= columns)) {
    *out_matrix = {nullptr, rows == 1 ? std::max<int64_t>(1, columns) : row_stride, transposed};
    return true;
  }
  if ((rows == 1 || row_stride == 1) && (columns == 1 || column_stride >= rows)) {
    *out_matrix = {nullptr, columns == 1 ? std::max<int64_t>(1, rows) : column_stride, !transposed};
    return true;
  }
  return false;
}

struct Call {
  Product product;
  keel_dtype dtype;    // of a, b and bias
  keel_dtype c_dtype;  // the same, or float32
  const keel_tensor* bias;
};

bool describe(const keel_op_call& call, Call* out_call) {
  const keel_tensor& a = *call.inputs[0];
  const keel_tensor& b = *call.inputs[1];
  const keel_tensor& c = *call.outputs[0];
  const keel_tensor* const bias = call.input_count > 2 ? call.inputs[2] : nullptr;
  const bool known =
      (a.dtype == KEEL_FLOAT32 && c.dtype == KEEL_FLOAT32) ||
      (a.dtype == KEEL_BFLOAT16 && (c.dtype == KEEL_FLOAT32 || c.dtype == KEEL_BFLOAT16));
  if (!known || b.dtype != a.dtype) return false;
  // The bias of a bfloat16 product with a float32 result may be either.
  if (bias != nullptr &&
      (!kit::is_contiguous(*bias) || (bias->dtype != a.dtype && bias->dtype != c.dtype))) {
    return false;
  }
  Product& product = out_call->product;
  const bool transposed_a = call.attributes[0].i != 0;
  const bool transposed_b = call.attributes[1].i != 0;
  if (!describe(a, transposed_a, &product.a) || !describe(b, transposed_b, &product.b) ||
      !describe(c, /*transposed=*/false, &product.c) || product.c.transposed) {
    return false;
  }
  product.m = c.shape[0];
  product.n = c.shape[1];
  product.k = a.shape[transposed_a ? 0 : 1];
  product.alpha = static_cast<float>(call.attributes[2].f);
  product.beta = static_cast<float>(call.attributes[3].f);
  out_call->dtype = a.dtype;
  out_call->c_dtype = c.dtype;
  out_call->bias = bias;
  return true;
}

// Without a bfloat16 product in the library, the operands are widened and the
// result is rounded once, in workspace. So are they where c already holds a sum of two
// things, beta * c and bias, that would have to be rounded before the product comes.
bool is_widened(const Call& call) {
  if (call.dtype != KEEL_BFLOAT16) return false;
  const bool rounds_twice =
      call.c_dtype == KEEL_BFLOAT16 && call.bias != nullptr && call.product.beta != 0.0f;
  return rounds_twice || !gemm::has_bf16();
}

uint64_t widened_floats(const Call& call) {
  const Product& p = call.product;
  const int64_t c = call.c_dtype == KEEL_BFLOAT16 ? p.m * p.n : 0;
  return static_cast<uint64_t>(p.m * p.k + p.k * p.n + c);
}

OpSupport matmul_query(const keel_op_call& op_call) {
  Call call;
  if (!describe(op_call, &call)) return {};
  if (is_widened(call)) {
    return {"matmul_widened", KEEL_OP_COMPOSED, widened_floats(call) * sizeof(float)};
  }
  if (call.dtype == KEEL_BFLOAT16) return {"matmul_bf16"};
  return {"matmul"};
}

// ---- tiles -------------------------------------------------------------------

char* element(const Matrix& matrix, int64_t row, int64_t column, int64_t size) {
  const int64_t offset =
      matrix.transposed ? column * matrix.stride + row : row * matrix.stride + column;
  return static_cast<char*>(matrix.data) + offset * size;
}

struct Grid {
  int64_t rows = 1, columns = 1;            // of tiles
  int64_t tile_rows = 0, tile_columns = 0;  // elements of a tile
};

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// One tile a core, of the shape that reads the least: a tile reads its rows of a
// and its columns of b. A product under 2 MFLOP (20 us) stays whole.
Grid cut(const Product& product, int cores) {
  Grid best = {1, 1, product.m, product.n};
  if (product.m * product.n * product.k < 1000000) return best;
  int64_t least = INT64_MAX;
  for (int64_t rows = 1; rows <= cores; ++rows) {
    if (cores % rows != 0) continue;
    // Multiples of what the inner kernel computes at once (48 columns, 8 rows).
    const int64_t tile_rows = std::min(product.m, round_up((product.m + rows - 1) / rows, 8));
    const int64_t columns = cores / rows;
    const int64_t tile_columns =
        std::min(product.n, round_up((product.n + columns - 1) / columns, 48));
    // The largest tile decides when the product is done.
    const int64_t work =
        tile_rows * tile_columns * (product.k + 64) + (tile_rows + tile_columns) * product.k;
    if (work < least) {
      least = work;
      best = {(product.m + tile_rows - 1) / tile_rows,
              (product.n + tile_columns - 1) / tile_columns, tile_rows, tile_columns};
    }
  }
  return best;
}

// Products of one shape; strides in elements, from one product's matrix to the next one's.
struct Batch {
  int64_t count = 1;
  int64_t a = 0, b = 0, c = 0;
};

// What stays after the tensors are gone: a plain value for the queue.
struct Work {
  Product product;
  keel_dtype dtype;
  keel_dtype c_dtype;
  keel_dtype bias_dtype;
  const void* bias;  // of product.n elements, or NULL
  Batch batch = {};

  // Of the batch, number |index|.
  Work one(int64_t index) const {
    const auto move = [&](Matrix& matrix, int64_t stride, keel_dtype of) {
      matrix.data = static_cast<char*>(matrix.data) + index * stride * kit::dtype_size(of);
    };
    Work result = *this;
    result.batch = {};
    move(result.product.a, batch.a, dtype);
    move(result.product.b, batch.b, dtype);
    move(result.product.c, batch.c, c_dtype);
    return result;
  }
};

float load(const void* data, keel_dtype dtype, int64_t i) {
  return dtype == KEEL_FLOAT32 ? static_cast<const float*>(data)[i]
                               : to_float(static_cast<const bfloat16_t*>(data)[i]);
}

// c = beta * c + bias, which the product is then added to.
void prepare(const Work& work) {
  const Product& p = work.product;
  const int64_t size = kit::dtype_size(work.c_dtype);
  for (int64_t i = 0; i < p.m; ++i) {
    char* const row = element(p.c, i, 0, size);
    if (work.bias != nullptr && p.beta == 0.0f && work.bias_dtype == work.c_dtype) {
      std::memcpy(row, work.bias, static_cast<size_t>(p.n * size));
      continue;
    }
    for (int64_t j = 0; j < p.n; ++j) {
      float value = p.beta == 0.0f ? 0.0f : p.beta * load(row, work.c_dtype, j);
      if (work.bias != nullptr) value += load(work.bias, work.bias_dtype, j);
      if (work.c_dtype == KEEL_FLOAT32) {
        reinterpret_cast<float*>(row)[j] = value;
      } else {
        reinterpret_cast<bfloat16_t*>(row)[j] = to_bfloat16(value);
      }
    }
  }
}

keel_status multiply_tile(Work work) {
  Product& p = work.product;
  if (work.bias != nullptr || p.k == 0) {
    prepare(work);
    p.beta = 1.0f;
    if (p.k == 0) return KEEL_OK;
  }
  return work.dtype == KEEL_FLOAT32 ? gemm::multiply_f32(p) : gemm::multiply_bf16(p, work.c_dtype);
}

// Products that a core takes at once: of small ones as many as make 2 MFLOP.
int64_t products_of_a_piece(const Product& product) {
  const int64_t work = product.m * product.n * std::max<int64_t>(1, product.k);
  return std::max<int64_t>(1, 1000000 / work);
}

keel_status multiply(ThreadPool& pool, const Work& work) {
  const int64_t batch = work.batch.count;
  // A batch of fewer products than cores shares each among some.
  const auto cores = static_cast<int>((pool.cores() + batch - 1) / batch);
  const Grid grid = cut(work.product, cores);
  const int64_t tiles = grid.rows * grid.columns;
  const int64_t piece = batch == 1 || tiles > 1 ? 1 : products_of_a_piece(work.product);
  std::atomic<keel_status> failure{KEEL_OK};
  const int64_t size = kit::dtype_size(work.dtype);
  const int64_t c_size = kit::dtype_size(work.c_dtype);
  pool.parallel_for(batch * tiles, piece, [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      const Work whole = work.one(index / tiles);
      const int64_t row = index % tiles / grid.columns * grid.tile_rows;
      const int64_t column = index % grid.columns * grid.tile_columns;
      Work tile = whole;
      Product& p = tile.product;
      p.m = std::min(grid.tile_rows, whole.product.m - row);
      p.n = std::min(grid.tile_columns, whole.product.n - column);
      p.a.data = element(whole.product.a, row, 0, size);
      p.b.data = element(whole.product.b, 0, column, size);
      p.c.data = element(whole.product.c, row, column, c_size);
      if (work.bias != nullptr) {
        tile.bias = static_cast<const char*>(work.bias) + column * kit::dtype_size(work.bias_dtype);
      }
      const keel_status status = multiply_tile(tile);
      if (status != KEEL_OK) failure.store(status, std::memory_order_relaxed);
    }
  });
  return failure.load(std::memory_order_relaxed);
}

// ---- widened bfloat16 ----------------------------------------------------------

// Copies the |rows| x |columns| matrix into dense float32 at |to|, row-major.
Matrix widen(const Matrix& matrix, int64_t rows, int64_t columns, float* to) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      to[i * columns + j] = load(element(matrix, i, j, sizeof(bfloat16_t)), KEEL_BFLOAT16, /*i=*/0);
    }
  }
  return {to, std::max<int64_t>(1, columns), /*transposed=*/false};
}

keel_status multiply_widened(ThreadPool& pool, const Work& work, float* workspace) {
  Work wide = work;
  Product& p = wide.product;
  wide.dtype = KEEL_FLOAT32;
  wide.c_dtype = KEEL_FLOAT32;
  p.a = widen(work.product.a, p.m, p.k, workspace);
  p.b = widen(work.product.b, p.k, p.n, workspace + p.m * p.k);
  float* const c = workspace + p.m * p.k + p.k * p.n;
  const bool narrow = work.c_dtype == KEEL_BFLOAT16;
  if (narrow) {
    p.c = p.beta == 0.0f ? Matrix{c, std::max<int64_t>(1, p.n), false}
                         : widen(work.product.c, p.m, p.n, c);
  }
  const keel_status status = multiply(pool, wide);
  if (!narrow || status != KEEL_OK) return status;
  for (int64_t i = 0; i < p.m; ++i) {
    auto* const row =
        reinterpret_cast<bfloat16_t*>(element(work.product.c, i, 0, sizeof(bfloat16_t)));
    for (int64_t j = 0; j < p.n; ++j) row[j] = to_bfloat16(c[i * p.n + j]);
  }
  return KEEL_OK;
}

void matmul_run(Stream& stream, const keel_op_call& op_call, void* workspace) {
  Call call;
  if (!describe(op_call, &call) || call.product.m == 0 || call.product.n == 0) return;
  Work work = {call.product, call.dtype, call.c_dtype, KEEL_DTYPE_INVALID, nullptr};
  work.product.a.data = address<void>(stream, *op_call.inputs[0]);
  work.product.b.data = address<void>(stream, *op_call.inputs[1]);
  work.product.c.data = address<void>(stream, *op_call.outputs[0]);
  if (call.bias != nullptr) {
    work.bias = address<void>(stream, *call.bias);
    work.bias_dtype = call.bias->dtype;
  }
  if (is_widened(call)) {
    auto* const scratch = static_cast<float*>(workspace);
    stream.enqueue([=](ThreadPool& pool) { return multiply_widened(pool, work, scratch); });
  } else {
    stream.enqueue([=](ThreadPool& pool) { return multiply(pool, work); });
  }
}

// ---- batches -------------------------------------------------------------------

// Any matrix of a batch: they differ in their address alone.
keel_tensor matrix_of(const keel_tensor& tensor) {
  keel_tensor matrix = tensor;
  matrix.rank = 2;
  for (uint32_t axis = 0; axis < 2; ++axis) {
    matrix.shape[axis] = tensor.shape[axis + 1];
    matrix.strides[axis] = tensor.strides[axis + 1];
  }
  return matrix;
}

bool describe_batched(const keel_op_call& call, Call* out_call) {
  if (call.inputs[0]->rank != 3) return false;
  const keel_tensor a = matrix_of(*call.inputs[0]);
  const keel_tensor b = matrix_of(*call.inputs[1]);
  const keel_tensor c = matrix_of(*call.outputs[0]);
  const keel_tensor* const inputs[] = {&a, &b};
  const keel_tensor* const outputs[] = {&c};
  keel_op_call one = call;
  one.inputs = inputs;
  one.outputs = outputs;
  return describe(one, out_call);
}

OpSupport batched_matmul_query(const keel_op_call& op_call) {
  Call call;
  if (!describe_batched(op_call, &call)) return {};
  if (is_widened(call)) {
    return {"batched_matmul_widened", KEEL_OP_COMPOSED, widened_floats(call) * sizeof(float)};
  }
  return {call.dtype == KEEL_BFLOAT16 ? "batched_matmul_bf16" : "batched_matmul"};
}

void batched_matmul_run(Stream& stream, const keel_op_call& op_call, void* workspace) {
  Call call;
  if (!describe_batched(op_call, &call) || kit::element_count(*op_call.outputs[0]) == 0) return;
  Work work = {call.product, call.dtype, call.c_dtype, KEEL_DTYPE_INVALID, nullptr};
  work.product.a.data = address<void>(stream, *op_call.inputs[0]);
  work.product.b.data = address<void>(stream, *op_call.inputs[1]);
  work.product.c.data = address<void>(stream, *op_call.outputs[0]);
  work.batch = {op_call.outputs[0]->shape[0], op_call.inputs[0]->strides[0],
                op_call.inputs[1]->strides[0], op_call.outputs[0]->strides[0]};
  if (!is_widened(call)) {
    stream.enqueue([=](ThreadPool& pool) { return multiply(pool, work); });
    return;
  }
  // One after the other, through workspace for one.
  auto* const scratch = static_cast<float*>(workspace);
  stream.enqueue([=](ThreadPool& pool) -> keel_status {
    for (int64_t index = 0; index < work.batch.count; ++index) {
      const keel_status status = multiply_widened(pool, work.one(index), scratch);
      if (status != KEEL_OK) return status;
    }
    return KEEL_OK;
  });
}

}  // namespace

const Operator kMatmulOperator = {matmul_query, matmul_run};
const Operator kBatchedMatmulOperator = {batched_matmul_query, batched_matmul_run};

}  // namespace keel::cpu
