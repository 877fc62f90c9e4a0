// SPDX-License-Identifier: Apache-2.0
// cuBLASLt called directly: the reference for matrix products on an Nvidia GPU.
#ifndef KEEL_BENCH_CUBLAS_PEER_H_
#define KEEL_BENCH_CUBLAS_PEER_H_

#include <keel/keel.h>

#include <cstdint>
#include <memory>
#include <string>

namespace keel::bench {

// c = op(a) op(b), dense and row-major: c is [m, n], op(a) [m, k], op(b) [k, n], where op
// transposes an operand that is stored transposed.
struct Product {
  int64_t m;
  int64_t n;
  int64_t k;
  bool trans_a;
  bool trans_b;
  keel_dtype dtype;  // of all three: KEEL_FLOAT32 or KEEL_BFLOAT16; sums are in float32

  double operations() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
};

// The library, opened at run time, on the current CUDA context. Runs one product at a time; used by
// one thread. Failures throw.
class CublasPeer {
 public:
  // Returns NULL and the reason if there is no libcublasLt or the build has no header for it.
  static std::unique_ptr<CublasPeer> open(std::string* out_reason);
  virtual ~CublasPeer() = default;

  // Chooses the kernel that the library's heuristic ranks first with |workspace_bytes| at
  // |workspace|, device memory that the caller owns. float32 runs without tensor cores.
  virtual void prepare(const Product& product, void* workspace, uint64_t workspace_bytes) = 0;
  // Enqueues the prepared product on |stream|, a CUstream.
  virtual void multiply(const void* a, const void* b, void* c, void* stream) = 0;
  // "cuBLASLt 13.1.0"
  virtual std::string describe() const = 0;
};

}  // namespace keel::bench

#endif  // KEEL_BENCH_CUBLAS_PEER_H_
