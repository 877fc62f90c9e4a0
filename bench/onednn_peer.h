// SPDX-License-Identifier: Apache-2.0
// oneDNN called directly: the reference for the CPU backend's matrix product.
#ifndef KEEL_BENCH_ONEDNN_PEER_H_
#define KEEL_BENCH_ONEDNN_PEER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "bench/product.h"

namespace keel::bench {

struct OnednnPeer {
  // Returns false if the build has no oneDNN; then the other functions throw.
  static bool is_here();
  // "oneDNN 2.6.3", or why absent.
  static std::string describe();
  // Returns whether oneDNN has bfloat16 products on this CPU.
  static bool has_bf16();
  // Computes c = a b in float32 with dnnl_sgemm on |threads| threads.
  static void multiply(const Product& product, const float* a, const float* b, float* c,
                       uint32_t threads);
};

// oneDNN's other interface: a primitive, compiled for one shape in advance, on matrices in the
// caller's layout. All three matrices are bfloat16, or all are float32.
class OnednnProduct {
 public:
  // |packed|: a matrix b, reordered once into the layout that the library prefers and used by all
  // runs.
  OnednnProduct(const Product& product, bool bfloat16, uint32_t threads,
                const void* packed = nullptr);
  ~OnednnProduct();
  OnednnProduct(const OnednnProduct&) = delete;
  OnednnProduct& operator=(const OnednnProduct&) = delete;

  // |b| is not read if the constructor packed one.
  void run(const void* a, const void* b, void* c);

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace keel::bench

#endif  // KEEL_BENCH_ONEDNN_PEER_H_
