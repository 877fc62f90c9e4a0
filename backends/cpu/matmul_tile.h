// SPDX-License-Identifier: Apache-2.0
// Products on the calling thread with all that belongs to one: what it is added to, the
// activation, the rounding to 16 bits. ops_matmul.cc cuts large ones into tiles.
#ifndef KEEL_BACKENDS_CPU_MATMUL_TILE_H_
#define KEEL_BACKENDS_CPU_MATMUL_TILE_H_

#include <keel/abi.h>

#include <cstdint>

#include "backends/cpu/gemm.h"

namespace keel::cpu {

// By the numbers of matmul's attribute.
enum class Activation : uint32_t { kNone, kGeluByTanh, kGeluByErf, kSilu };

// c = activation(alpha * a b + beta * c + bias); k may be 0. A plain value for the queue.
struct Tile {
  gemm::Product product = {};
  keel_dtype dtype = KEEL_DTYPE_INVALID;       // of a and b
  keel_dtype c_dtype = KEEL_DTYPE_INVALID;     // the same, or float32
  keel_dtype bias_dtype = KEEL_DTYPE_INVALID;  // of either; invalid: there is none
  Activation activation = Activation::kNone;
  const void* bias = nullptr;  // of product.n elements

  bool is_biased() const { return bias_dtype != KEEL_DTYPE_INVALID; }
  // Rows and columns from (row, column) on, with all of k.
  Tile part(int64_t row, int64_t column, int64_t rows, int64_t columns) const;
};

// A tensor of rank 2 of which one axis is dense, but for where it lies. False for others.
bool describe_matrix(const keel_tensor& tensor, bool transposed, gemm::Matrix* out_matrix);

// Where element (row, column) of |matrix| lies; |size| in bytes.
char* element(const gemm::Matrix& matrix, int64_t row, int64_t column, int64_t size);

// Whether a and b of |dtype| are multiplied as float32, for want of a product of their own.
bool is_widened(keel_dtype dtype);

// The order of packed weights [k,n] on CPU devices, without their memory: in panels, or dense and
// row-major where products read those as fast.
gemm::Matrix packed_order(keel_dtype dtype, int64_t k, int64_t n);

// Throws std::bad_alloc.
keel_status multiply_tile(const Tile& tile);

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_MATMUL_TILE_H_
