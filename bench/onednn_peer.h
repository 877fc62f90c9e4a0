// oneDNN called directly: what the CPU backend's matrix product is held against.
#ifndef KEEL_BENCH_ONEDNN_PEER_H_
#define KEEL_BENCH_ONEDNN_PEER_H_

#include <cstdint>
#include <string>

namespace keel::bench {

struct OnednnPeer {
  // False where the build has none; multiply() then throws.
  static bool is_here();
  // "oneDNN 2.6.3", or why there is none.
  static std::string describe();
  // c = a b, all [size, size] float32, row-major, on |threads| threads.
  static void multiply(int64_t size, const float* a, const float* b, float* c, uint32_t threads);
};

}  // namespace keel::bench

#endif  // KEEL_BENCH_ONEDNN_PEER_H_
