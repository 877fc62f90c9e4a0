// SPDX-License-Identifier: Apache-2.0
// oneDNN called directly: what the CPU backend's matrix product is held against.
#ifndef KEEL_BENCH_ONEDNN_PEER_H_
#define KEEL_BENCH_ONEDNN_PEER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "bench/product.h"

namespace keel::bench {

struct OnednnPeer {
  // False where the build has none; the rest then throws.
  static bool is_here();
  // "oneDNN 2.6.3", or why there is none.
  static std::string describe();
  // Whether it has bfloat16 products on this processor.
  static bool has_bf16();
  // c = a b in float32 by dnnl_sgemm, on |threads| threads.
  static void multiply(const Product& product, const float* a, const float* b, float* c,
                       uint32_t threads);
};

// The library's other way: a primitive, compiled for its shape beforehand, of matrices that stay
// as the caller stores them. All three are bfloat16, or float32.
class OnednnProduct {
 public:
  // |packed|: a b to put in the order that the library likes best, which all runs multiply by.
  OnednnProduct(const Product& product, bool bfloat16, uint32_t threads,
                const void* packed = nullptr);
  ~OnednnProduct();
  OnednnProduct(const OnednnProduct&) = delete;
  OnednnProduct& operator=(const OnednnProduct&) = delete;

  // b is not read where one was packed.
  void run(const void* a, const void* b, void* c);

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace keel::bench

#endif  // KEEL_BENCH_ONEDNN_PEER_H_
