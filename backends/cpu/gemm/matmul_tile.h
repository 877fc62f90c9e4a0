// SPDX-License-Identifier: Apache-2.0
// Products on the calling thread with their epilogue: the added c and bias, the activation, the
// rounding to 16 bits. ops_matmul.cc splits large products into tiles.
#ifndef KEEL_BACKENDS_CPU_GEMM_MATMUL_TILE_H_
#define KEEL_BACKENDS_CPU_GEMM_MATMUL_TILE_H_

#include <keel/abi.h>

#include <cstdint>

#include "backends/cpu/gemm/gemm.h"

namespace keel::cpu {

// Values as numbered by matmul's attribute.
enum class Activation : uint32_t { kNone, kGeluByTanh, kGeluByErf, kSilu };

// c = activation(alpha * a b + beta * c + bias); k may be 0. Trivially copyable, for the queue.
struct Tile {
  gemm::Product product = {};
  keel_dtype dtype = KEEL_DTYPE_INVALID;       // of a and b
  keel_dtype c_dtype = KEEL_DTYPE_INVALID;     // equal to dtype, or float32
  keel_dtype bias_dtype = KEEL_DTYPE_INVALID;  // dtype or c_dtype; invalid: no bias
  Activation activation = Activation::kNone;
  const void* bias = nullptr;  // product.n elements

  bool is_biased() const { return bias_dtype != KEEL_DTYPE_INVALID; }
  // The tile of |rows| x |columns| at (row, column), with the full depth k.
  Tile part(int64_t row, int64_t column, int64_t rows, int64_t columns) const;
};

// Describes a tensor of rank 2 with one dense axis; leaves |data| NULL. Returns false for any other
// tensor.
bool describe_matrix(const keel_tensor& tensor, bool transposed, gemm::Matrix* out_matrix);

// Address of element (row, column) of |matrix|; |size| is an element's size in bytes.
char* element(const gemm::Matrix& matrix, int64_t row, int64_t column, int64_t size);

// Whether products of |dtype| convert a and b to float32, because this processor has no product for
// |dtype|.
bool is_widened(keel_dtype dtype);

// The layout of packed weights [k,n] on CPU devices, with |data| NULL: panels, or dense row-major
// where products read row-major weights as fast.
gemm::Matrix packed_order(keel_dtype dtype, int64_t k, int64_t n);

// Throws std::bad_alloc.
keel_status multiply_tile(const Tile& tile);

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_GEMM_MATMUL_TILE_H_
