// SPDX-License-Identifier: Apache-2.0
// Matrix products by the vendor's library, cuBLASLt, where it is there and has a kernel for them;
// backends/simt makes the others. See docs/decisions/026.
#ifndef KEEL_BACKENDS_CUDA_LIBRARY_PRODUCTS_H_
#define KEEL_BACKENDS_CUDA_LIBRARY_PRODUCTS_H_

#include <keel/abi.h>

#include <cstdint>
#include <memory>
#include <string>

namespace keel::cuda {

class Device;
class Stream;

// What decides how a product is made, all but the numbers: c = alpha * op(a) op(b) + beta * c, and
// |bias| on every row. Matrices are stored row by row, with so many elements from one row to the
// next, and from one matrix of the batch to the next.
struct Product {
  int64_t m, n, k;
  int64_t a_row, b_row, c_row;
  int64_t batch;
  int64_t a_batch, b_batch, c_batch;
  keel_dtype in, out;  // of a, b and the bias; of c
  bool trans_a, trans_b, bias;
  // Of the addresses, in bytes: a power of two.
  uint16_t a_alignment, b_alignment, c_alignment, bias_alignment;

  friend bool operator==(const Product&, const Product&) = default;
};

// The numbers of one product, in the device's memory.
struct Factors {
  const void* a;
  const void* b;
  const void* bias;
  void* c;
  float alpha, beta;
};

// The library on one device. It is opened, and started, by the first question; a product that is
// asked about anew is planned, which takes the library some tens of microseconds, and every later
// one finds its plan by one look. The same product is made in the same way each time, so the same
// numbers give the same bits. Thread-safe.
class LibraryProducts {
 public:
  // |folder|: where the library is looked for; empty: where the dynamic loader looks, and in
  // CUDA's own folder.
  LibraryProducts(Device& device, std::string folder);
  // What the library may use beside the matrices. Every product that uses any is given all of it,
  // so that core's allocator hands a stream the same block each time.
  static constexpr uint64_t kWorkspaceBytes = 32 << 20;

  // All that was run is over. Before the device lets go of its context.
  ~LibraryProducts();
  LibraryProducts(const LibraryProducts&) = delete;
  LibraryProducts& operator=(const LibraryProducts&) = delete;

  // Whether run() makes |product|, then with so much workspace: 0 or kWorkspaceBytes.
  bool takes(const Product& product, uint64_t* out_workspace_bytes);

  // Enqueues it. |workspace|: kWorkspaceBytes, or NULL. Where |*out_ran| is false nothing was
  // enqueued, and the status is KEEL_OK: the library does not take it, or not without a workspace.
  keel_status run(const Stream& stream, const Product& product, const Factors& factors,
                  void* workspace, bool* out_ran);

 private:
  class Plans;

  const std::unique_ptr<Plans> plans_;  // NULL in a build without the library's header
};

}  // namespace keel::cuda

#endif  // KEEL_BACKENDS_CUDA_LIBRARY_PRODUCTS_H_
