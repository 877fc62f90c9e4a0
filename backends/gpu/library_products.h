// SPDX-License-Identifier: Apache-2.0
// Matrix products by the vendor's library, cuBLASLt or rocBLAS, if the library is present and has a
// kernel for the product; kernels/gpu computes all other products. See docs/decisions/026.
#ifndef KEEL_BACKENDS_GPU_LIBRARY_PRODUCTS_H_
#define KEEL_BACKENDS_GPU_LIBRARY_PRODUCTS_H_

#include <keel/abi.h>

#include <cstdint>
#include <memory>
#include <string>

namespace keel::gpu {

class Device;
class Stream;

// The key that determines how a product is computed, without the operands: c = alpha * op(a) op(b)
// + beta * c, plus |bias| on every row. Matrices are row-major; *_row and *_batch are the elements
// between rows and between the matrices of the batch.
struct Product {
  int64_t m, n, k;
  int64_t a_row, b_row, c_row;
  int64_t batch;
  int64_t a_batch, b_batch, c_batch;
  keel_dtype in, out;  // dtype of a, b and the bias; dtype of c
  bool trans_a, trans_b, bias;
  // Alignment of the addresses in bytes, a power of two.
  uint16_t a_alignment, b_alignment, c_alignment, bias_alignment;

  friend bool operator==(const Product&, const Product&) = default;
};

// The operands of one product, in device memory.
struct Factors {
  const void* a;
  const void* b;
  const void* bias;
  void* c;
  float alpha, beta;
};

// The library on one device. The first query opens and initialises the library. The first query of
// a product creates a plan, which takes some tens of microseconds; later queries find the plan with
// one lookup. Equal products use equal plans, so equal inputs give equal bits. Thread-safe.
class LibraryProducts {
 public:
  // |folder| contains the library; if empty, the search covers the dynamic loader's paths and
  // the default folder of the vendor's toolkit.
  LibraryProducts(Device& device, std::string folder);
  // Workspace limit of the library. Every product with a workspace receives the full size, so that
  // core's allocator returns the same block to a stream each time.
  static constexpr uint64_t kWorkspaceBytes = 32 << 20;

  // Requires that all enqueued products have finished. Call before the device releases its context.
  ~LibraryProducts();
  LibraryProducts(const LibraryProducts&) = delete;
  LibraryProducts& operator=(const LibraryProducts&) = delete;

  // Whether the library adds a bias; else no product may have one.
  static bool adds_bias();
  // Whether run() computes |product|. Sets the required workspace to 0 or kWorkspaceBytes.
  bool takes(const Product& product, uint64_t* out_workspace_bytes);

  // Enqueues the product. |workspace| has kWorkspaceBytes, or is NULL. If |*out_ran| is false and
  // the status is KEEL_OK, nothing was enqueued: the library refuses the product, or needs a
  // workspace.
  keel_status run(const Stream& stream, const Product& product, const Factors& factors,
                  void* workspace, bool* out_ran);

 private:
  class Plans;

  const std::unique_ptr<Plans> plans_;  // NULL in a build without the library's header
};

}  // namespace keel::gpu

#endif  // KEEL_BACKENDS_GPU_LIBRARY_PRODUCTS_H_
