// SPDX-License-Identifier: Apache-2.0
// Tensor and sequence parallelism: products of matrices that are divided over the ranks of axis tp.
//
//   column: W = [W0; W1]  y_t = x Wt'         row: W = [W0 W1]  y = sum over t of x_t Wt'
//
//   without sequence parallelism      forward            backward
//     column, then row                (none), all_reduce  all_reduce, (none)
//   with sequence parallelism, where each rank has its own rows of x and y:
//     column, then row                all_gather, reduce_scatter, both ways
//
// The same bytes either way; norms and dropout are divided too with sequence parallelism.
// Sources: Shoeybi et al., "Megatron-LM", 2019; Korthikanti et al., "Reducing Activation
// Recomputation in Large Transformer Models", 2022.
//
// Chunked products: rows are cut so that communication of one chunk runs beside the product of
// another (Wang et al., "Overlap Communication with Dependent Computation via Decomposition in
// Large Deep Learning Models", ASPLOS 2023):
//
//   gather_products   lane:    [gather 0][gather 1][gather 2]
//                     compute:           [product 0][product 1][product 2]
//   (a chunk's gather writes its rows of each rank's part and leaves those between; the validation
//   layer, which counts the whole span of a collective as written, reports races there)
//   products_reduce   compute: [product 0][product 1][product 2]
//                     lane:               [reduce 0][reduce 1][reduce 2]
#ifndef KEEL_PARALLEL_TENSOR_GROUP_H_
#define KEEL_PARALLEL_TENSOR_GROUP_H_

#include <cstdint>
#include <initializer_list>
#include <keel/keel.hpp>
#include <keel/parallel/traffic.hpp>
#include <optional>
#include <vector>

#include "parallel/tensors.h"

namespace keel::parallel {

// y = x W' + bias, or x W for the gradient of x. Weights and biases are float32 or bfloat16, for
// which products round x likewise; sums are float32.
struct Product {
  keel_tensor weight;  // [outputs, inputs]
  std::optional<keel_tensor> bias;
  keel_tensor y;
  bool transposed = true;  // x W'
};
struct Summand {
  keel_tensor x;       // all rows
  keel_tensor weight;  // [outputs, inputs]
  bool transposed;     // x W' instead of x W
};

// The ranks of axis tp as one rank sees them. All members enqueue on the stream of |memory|, or on
// a lane beside. Not thread-safe.
class TensorGroup {
 public:
  // |channel| of one rank: no communication. |chunks|: 1 for whole products.
  TensorGroup(Memory& memory, Channel channel, bool sequence, int64_t chunks);

  int64_t size() const { return channel_.ranks(); }
  int64_t rank() const { return channel_.rank(); }
  // True if each rank has its own rows between the products.
  bool divides_rows() const { return sequence_ && size() > 1; }
  // Rows of this rank, of |all|.
  int64_t own_rows(int64_t all) const { return divides_rows() ? all / size() : all; }
  const Channel& channel() const { return channel_; }

  // All rows of |x|, of which this rank has its own; and their products with each matrix.
  Tensor gather_products(Tensor x, std::initializer_list<Product> products);
  // This rank's rows of the sum over ranks and summands.
  Tensor products_reduce(std::initializer_list<Summand> summands, int64_t columns);
  // The same for a sum that is computed already; takes |partial|'s memory where it can.
  Tensor reduce(Tensor partial);

 private:
  // Rows of |x| in the dtype of |weight|.
  Tensor rounded_rows(const keel_tensor& x, const keel_tensor& weight, int64_t first,
                      int64_t count);
  void multiply(std::initializer_list<Product> products, const keel_tensor& x, int64_t first,
                int64_t count);
  void multiply(const Summand& summand, const keel_tensor& y, int64_t first, int64_t count,
                bool add);
  struct Piece {
    int64_t begin, end;
  };
  // Rows of chunk |chunk|, within the |rows| of one rank.
  Piece piece(int64_t chunk, int64_t rows) const {
    return {chunk * rows / chunks_, (chunk + 1) * rows / chunks_};
  }
  // Counts and offsets of a chunk's collective, in elements.
  void place(const Piece& piece, int64_t rows, int64_t columns);
  void lane_waits();  // for what the stream has enqueued so far
  void lane_done(size_t chunk);

  Memory& memory_;
  Stream& stream_;
  Channel channel_;
  bool sequence_;
  int64_t chunks_;
  std::optional<Stream> lane_;
  std::vector<Event> done_;  // of the lane, one a chunk
  std::optional<Event> ready_;
  std::vector<uint64_t> counts_, offsets_;
};

}  // namespace keel::parallel

#endif  // KEEL_PARALLEL_TENSOR_GROUP_H_
