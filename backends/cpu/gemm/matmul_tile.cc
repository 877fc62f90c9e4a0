// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/gemm/matmul_tile.h"

#include <algorithm>
#include <keel/plugin_kit.hpp>

#include "backends/cpu/gemm/gemm_bf16.h"
#include "backends/cpu/gemm/gemm_blocks.h"
#include "backends/cpu/kernels/float_rows.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/runtime/scratch.h"

namespace keel::cpu {
namespace {

using gemm::Matrix;
using gemm::Product;
using kernels::kBlock;
using kernels::kLinesAdded;
using kernels::kLinesDotted;
using kernels::ReadFloats;
using kernels::WrittenFloats;

void activate(Activation activation, float* x, int64_t count) {
  switch (activation) {
    case Activation::kNone:
      return;
    case Activation::kGeluByTanh:
    case Activation::kGeluByErf:
      return kernels::bias_gelu_f32(activation == Activation::kGeluByErf, x, nullptr, x, count);
    case Activation::kSilu:
      return kernels::silu_f32(x, x, count);
  }
}

// to = beta * c + bias, to which the product is then added. |to| has the size of c, or is c.
void begin(const Tile& tile, const Matrix& to, keel_dtype to_dtype) {
  const Product& p = tile.product;
  const ReadFloats old(p.c.data, tile.c_dtype);
  const ReadFloats bias = tile.is_biased() ? ReadFloats(tile.bias, tile.bias_dtype) : ReadFloats();
  const WrittenFloats sum(to.data, to_dtype);
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; j += kBlock) {
      float room[3][kBlock];
      const int64_t count = std::min(kBlock, p.n - j);
      const int64_t at = i * to.stride + j;
      float* const y = sum.block(at, room[0]);
      const float* const added = bias ? bias.block(j, count, room[1]) : nullptr;
      if (p.beta != 0.0f) {
        kernels::scale_f32(old.block(i * p.c.stride + j, count, room[2]), p.beta, y, count);
        if (added != nullptr) kernels::add_f32(y, added, y, count);
      } else if (added != nullptr) {
        std::copy_n(added, count, y);
      } else {
        std::fill_n(y, count, 0.0f);
      }
      sum.finish(at, count, y);
    }
  }
}

// c = activation(sum), where |sum| is c itself or is stored beside c.
void finish(const Tile& tile, const Matrix& sum) {
  const Product& p = tile.product;
  const bool is_beside = sum.data != p.c.data;
  const int64_t size = kit::dtype_size(tile.c_dtype);
  const kernels::CastFunction cast =
      is_beside ? kernels::cast_function(KEEL_FLOAT32, tile.c_dtype) : nullptr;
  for (int64_t i = 0; i < p.m; ++i) {
    float* const row = static_cast<float*>(sum.data) + i * sum.stride;
    activate(tile.activation, row, p.n);
    if (is_beside) cast(row, element(p.c, i, 0, size), p.n);
  }
}

// ---- straight into c -----------------------------------------------------------

// Multiplies directly into c, which holds the sum in float32, or has no activation and no term that
// would be rounded twice.
keel_status multiply_straight(const Tile& tile) {
  Product p = tile.product;
  if (tile.is_biased() || p.k == 0) {
    begin(tile, p.c, tile.c_dtype);
    p.beta = 1.0f;
  }
  if (p.k != 0 && tile.dtype == KEEL_FLOAT32) {
    gemm::multiply_f32(p);
  } else if (p.k != 0) {
    const keel_status status = gemm::multiply_bf16(p, tile.c_dtype);
    if (status != KEEL_OK) return status;
  }
  // Applies the activation to all of c at once: bands that fit one core's cache would each pack b
  // again, which costs more than the bands save.
  if (tile.activation != Activation::kNone) finish(tile, p.c);
  return KEEL_OK;
}

// ---- through float32 -----------------------------------------------------------

// A block of a 16-bit c is accumulated in float32 beside c and rounded once, over panels of a and b
// that are widened beside c and read from the cache. A panel is widened again for each block that
// reads it, which costs some percent of the product.
constexpr int64_t kRows = 512;
constexpr int64_t kColumns = 768;
constexpr int64_t kDepth = 384;
constexpr int64_t kUnit = 16;

// Row pitch for which lines begin at 64 bytes and in different cache sets.
int64_t pitch_of(int64_t length) {
  return (length + 15) / 16 * 16 + 16;
}

// Floats for a matrix of these extents, stored transposed or not.
int64_t room_for(int64_t rows, int64_t columns) {
  return std::max(rows * pitch_of(columns), columns * pitch_of(rows));
}

// Converts the |rows| x |columns| at (row, column) to float32 at |room|, transposed like |matrix|.
Matrix widen(const Matrix& matrix, keel_dtype dtype, int64_t row, int64_t column, int64_t rows,
             int64_t columns, float* room) {
  const int64_t lines = matrix.transposed ? columns : rows;
  const int64_t length = matrix.transposed ? rows : columns;
  const int64_t size = kit::dtype_size(dtype);
  const char* const first = element(matrix, row, column, size);
  const kernels::CastFunction cast = kernels::cast_function(dtype, KEEL_FLOAT32);
  for (int64_t line = 0; line < lines; ++line) {
    cast(first + line * matrix.stride * size, room + line * pitch_of(length), length);
  }
  return {room, pitch_of(length), matrix.transposed};
}

// Whether the lines of |matrix|, of |rows| x |columns|, are adjacent.
bool is_dense(const Matrix& matrix, int64_t rows, int64_t columns) {
  return matrix.stride == (matrix.transposed ? rows : columns);
}

// oneDNN (2.6.3) multiplies by panels fast only if a and c are dense; other layouts take a thousand
// times as long.
bool is_dense(const Product& product) {
  return is_dense(product.a, product.m, product.k) && is_dense(product.c, product.m, product.n);
}

// Copies |matrix|, of 16 bits, without gaps to |room|.
Matrix close_up(const Matrix& matrix, int64_t rows, int64_t columns, void* room) {
  const int64_t lines = matrix.transposed ? columns : rows;
  const int64_t length = matrix.transposed ? rows : columns;
  const auto* const from = static_cast<const uint16_t*>(matrix.data);
  auto* const to = static_cast<uint16_t*>(room);
  for (int64_t line = 0; line < lines; ++line) {
    std::copy_n(from + line * matrix.stride, length, to + line * length);
  }
  return {room, length, matrix.transposed};
}

keel_status multiply_staged(const Tile& tile) {
  const Product& whole = tile.product;
  const bool widened = is_widened(tile.dtype);
  const bool is_packed = whole.b.panel != 0;
  const bool is_beside = tile.c_dtype != KEEL_FLOAT32 || is_packed;
  const int64_t rows = gemm::equal_part(whole.m, kRows, kUnit);
  const int64_t columns = gemm::equal_part(whole.n, kColumns, is_packed ? whole.b.stride : kUnit);
  const int64_t depth = widened ? gemm::equal_part(whole.k, kDepth, kUnit) : whole.k;
  const int64_t a_room = widened ? room_for(rows, depth) : is_packed ? (rows * depth + 1) / 2 : 0;
  const int64_t b_room = widened ? room_for(depth, columns) : 0;
  const int64_t c_room = is_beside ? rows * pitch_of(columns) : 0;
  const auto [a, b, c] = thread_floats({a_room, b_room, c_room});
  for (int64_t j = 0; j < whole.n; j += columns) {
    Matrix b_panel = {};
    for (int64_t i = 0; i < whole.m; i += rows) {
      const Tile block =
          tile.part(i, j, std::min(rows, whole.m - i), std::min(columns, whole.n - j));
      Product p = block.product;
      if (is_beside) p.c = {c, is_packed ? p.n : pitch_of(columns), /*transposed=*/false};
      if (is_packed && !is_dense(p.a, p.m, p.k)) p.a = close_up(p.a, p.m, p.k, a);
      if (tile.is_biased() || (is_beside && p.beta != 0.0f) || p.k == 0) {
        begin(block, p.c, KEEL_FLOAT32);
        p.beta = 1.0f;
      }
      for (int64_t l = 0; l < whole.k; l += depth) {
        p.k = std::min(depth, whole.k - l);
        if (widened) {
          p.a = widen(block.product.a, tile.dtype, 0, l, p.m, p.k, a);
          // A panel with the full depth k serves all blocks of its columns.
          if (i == 0 || depth < whole.k) {
            b_panel = widen(block.product.b, tile.dtype, l, 0, p.k, p.n, b);
          }
          p.b = b_panel;
        }
        if (widened) {
          gemm::multiply_f32(p);
        } else {
          const keel_status status = gemm::multiply_bf16(p, KEEL_FLOAT32);
          if (status != KEEL_OK) return status;
        }
        p.beta = 1.0f;
      }
      finish(block, p.c);
    }
  }
  return KEEL_OK;
}

// ---- with few vectors --------------------------------------------------------------

// GEMV for a few rows of c or one column: y = x W, at the speed at which memory delivers W. W is
// read once, some lines at a time, and widened on the way. Packing in a library's product pays only
// if W is used again: 8 x 4096 x 4096 takes oneDNN twice as long, and more in bfloat16.

// Converts |count| elements from |first| on, |step| apart, to float32 at |to|.
void gather(const char* first, keel_dtype dtype, int64_t step, int64_t count, float* to) {
  const kernels::CastFunction cast = kernels::cast_function(dtype, KEEL_FLOAT32);
  if (step == 1) return cast(first, to, count);
  const int64_t bytes = step * kit::dtype_size(dtype);
  for (int64_t i = 0; i < count; ++i) cast(first + i * bytes, to + i, 1);
}

void scatter(const float* from, char* first, keel_dtype dtype, int64_t step, int64_t count) {
  const kernels::CastFunction cast = kernels::cast_function(KEEL_FLOAT32, dtype);
  if (step == 1) return cast(from, first, count);
  const int64_t bytes = step * kit::dtype_size(dtype);
  for (int64_t i = 0; i < count; ++i) cast(from + i, first + i * bytes, 1);
}

// Lines of W, |stride| elements apart, in a dtype that the kernels take; float16 is widened, a part
// of the lines at a time.
class Lines {
 public:
  Lines(const void* data, keel_dtype dtype, int64_t stride)
      : data_(static_cast<const char*>(data)),
        dtype_(dtype),
        stride_(stride),
        part_dtype_(dtype == KEEL_FLOAT16 ? keel_dtype{KEEL_FLOAT32} : dtype),
        widen_(part_dtype_ == dtype ? nullptr : kernels::cast_function(dtype, part_dtype_)) {}
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  keel_dtype part_dtype() const { return part_dtype_; }
  int64_t part_length() const { return widen_ != nullptr ? kBlock : 8 * kBlock; }
  // Returns the elements [begin, end) of |count| lines from |first| on, valid until the next call.
  const void* const* part(int64_t first, int64_t count, int64_t begin, int64_t end) {
    for (int64_t n = 0; n < count; ++n) {
      const char* const from = data_ + ((first + n) * stride_ + begin) * kit::dtype_size(dtype_);
      if (widen_ != nullptr) widen_(from, room_[n], end - begin);
      lines_[n] = widen_ != nullptr ? static_cast<const void*>(room_[n]) : from;
    }
    return lines_;
  }

 private:
  static constexpr int64_t kMost = std::max(kLinesAdded, kLinesDotted);

  const char* const data_;
  const keel_dtype dtype_;
  const int64_t stride_;
  const keel_dtype part_dtype_;
  const kernels::CastFunction widen_;
  const void* lines_[kMost];
  float room_[kMost][kBlock];
};

// y[j] = the sum over l of x[l] times element l of line j.
void dot_lines(Lines& lines, const float* x, int64_t length, float* y, int64_t count) {
  for (int64_t j = 0; j < count; j += kLinesDotted) {
    const int64_t taken = std::min(kLinesDotted, count - j);
    double sums[kLinesDotted] = {};
    for (int64_t begin = 0; begin < length; begin += lines.part_length()) {
      const int64_t end = std::min(begin + lines.part_length(), length);
      kernels::dot_lines(lines.part_dtype(), lines.part(j, taken, begin, end), taken, x + begin,
                         end - begin, sums);
    }
    for (int64_t n = 0; n < taken; ++n) y[j + n] = static_cast<float>(sums[n]);
  }
}

// y[r][j] = the sum over l of x[r][l] times element j of line l, for |rows| rows. Processes y in
// parts that stay in the inner caches: a part accumulates all lines before the next part begins.
void add_lines(Lines& lines, int64_t rows, const float* x, int64_t length, float* y,
               int64_t count) {
  std::fill_n(y, rows * count, 0.0f);
  for (int64_t begin = 0; begin < count; begin += lines.part_length()) {
    const int64_t end = std::min(begin + lines.part_length(), count);
    for (int64_t l = 0; l < length; l += kLinesAdded) {
      const int64_t taken = std::min(kLinesAdded, length - l);
      kernels::add_lines(lines.part_dtype(), lines.part(l, taken, begin, end), taken, rows, x + l,
                         length, y + begin, count, end - begin);
    }
  }
}

// c = activation(alpha * y + beta * c + bias) for |count| elements of c, a row of the tile or its
// column; |old| has room for |count| floats.
void finish_vector(const Tile& tile, bool is_row, float* y, int64_t count, float* old, char* c) {
  const Product& p = tile.product;
  if (p.alpha != 1.0f) kernels::scale_f32(y, p.alpha, y, count);
  const int64_t step = is_row ? 1 : p.c.stride;
  if (p.beta != 0.0f) {
    gather(c, tile.c_dtype, step, count, old);
    kernels::axpy_f32(old, p.beta, y, y, count);
  }
  if (tile.is_biased()) {
    const ReadFloats bias(tile.bias, tile.bias_dtype);
    float room[kBlock];
    for (int64_t j = 0; j < count; j += kBlock) {
      const int64_t width = std::min(kBlock, count - j);
      if (is_row) {
        kernels::add_f32(y + j, bias.block(j, width, room), y + j, width);
      } else {
        std::fill_n(room, width, *bias.block(0, 1, room));
        kernels::add_f32(y + j, room, y + j, width);
      }
    }
  }
  activate(tile.activation, y, count);
  scatter(y, c, tile.c_dtype, step, count);
}

// Whether the rows are so few, and b is so large, that b is read once for all rows.
bool has_few_rows(const Product& product) {
  constexpr int64_t kFew = 16;
  constexpr int64_t kLarge = int64_t{1} << 19;  // elements
  return product.m <= kFew && !product.b.transposed && product.n * product.k >= kLarge;
}

// Computes a product of one row or column, or of few rows.
keel_status multiply_vectors(const Tile& tile) {
  const Product& p = tile.product;
  const bool is_row = p.m == 1 || p.n != 1;
  const Matrix& vectors = is_row ? p.a : p.b;
  const Matrix& matrix = is_row ? p.b : p.a;
  const int64_t rows = is_row ? p.m : 1;
  const int64_t count = is_row ? p.n : p.m;
  const auto [x, y, old] = thread_floats({rows * p.k, rows * count, p.beta == 0.0f ? 0 : count});
  for (int64_t r = 0; r < rows; ++r) {
    gather(element(vectors, is_row ? r : 0, 0, kit::dtype_size(tile.dtype)), tile.dtype,
           vectors.transposed == is_row ? vectors.stride : 1, p.k, x + r * p.k);
  }
  Lines lines(matrix.data, tile.dtype, matrix.stride);
  if (matrix.transposed == is_row) {
    dot_lines(lines, x, p.k, y, count);
  } else {
    add_lines(lines, rows, x, p.k, y, count);
  }
  for (int64_t r = 0; r < rows; ++r) {
    finish_vector(tile, is_row, y + r * count, count, old,
                  element(p.c, r, 0, kit::dtype_size(tile.c_dtype)));
  }
  return KEEL_OK;
}

// Whether a 16-bit c cannot hold the value before its single rounding.
bool rounds_twice(const Tile& tile) {
  return tile.c_dtype != KEEL_FLOAT32 &&
         (tile.activation != Activation::kNone || (tile.is_biased() && tile.product.beta != 0.0f));
}

}  // namespace

bool describe_matrix(const keel_tensor& tensor, bool transposed, Matrix* out_matrix) {
  if (tensor.rank != 2) return false;
  const int64_t rows = tensor.shape[0];
  const int64_t columns = tensor.shape[1];
  const int64_t row_stride = tensor.strides[0];
  const int64_t column_stride = tensor.strides[1];
  // The stride of an axis of one element is meaningless.
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

char* element(const Matrix& matrix, int64_t row, int64_t column, int64_t size) {
  return static_cast<char*>(matrix.data) + matrix.offset(row, column) * size;
}

Tile Tile::part(int64_t row, int64_t column, int64_t rows, int64_t columns) const {
  const int64_t size = kit::dtype_size(dtype);
  Tile result = *this;
  result.product.m = rows;
  result.product.n = columns;
  result.product.a.data = element(product.a, row, 0, size);
  result.product.b.data = element(product.b, 0, column, size);
  result.product.c.data = element(product.c, row, column, kit::dtype_size(c_dtype));
  if (is_biased()) {
    result.bias = static_cast<const char*>(bias) + column * kit::dtype_size(bias_dtype);
  }
  return result;
}

bool is_widened(keel_dtype dtype) {
  return dtype == KEEL_FLOAT16 || (dtype == KEEL_BFLOAT16 && !gemm::has_bf16());
}

Matrix packed_order(keel_dtype dtype, int64_t k, int64_t n) {
  if (dtype == KEEL_FLOAT32) return gemm::panels_of_f32(k, n);
  // A product that reads a single column would use one of a panel's 64 columns.
  if (dtype == KEEL_BFLOAT16 && !is_widened(dtype) && n > 1) return gemm::panels_of_bf16(k);
  return {nullptr, n, /*transposed=*/false};
}

keel_status multiply_tile(const Tile& tile) {
  const Product& p = tile.product;
  const bool is_packed = p.b.panel != 0;
  const bool has_gaps = is_packed && tile.dtype == KEEL_BFLOAT16 && !is_dense(p);
  if (p.k != 0 && !is_packed && (p.m == 1 || p.n == 1 || has_few_rows(p)))
    return multiply_vectors(tile);
  if (is_widened(tile.dtype) || rounds_twice(tile) || has_gaps) return multiply_staged(tile);
  return multiply_straight(tile);
}

}  // namespace keel::cpu
