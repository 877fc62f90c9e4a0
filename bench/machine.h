// SPDX-License-Identifier: Apache-2.0
// The machine on which figures were taken.
#ifndef KEEL_BENCH_MACHINE_H_
#define KEEL_BENCH_MACHINE_H_

#include <cstdint>
#include <string>

namespace keel::bench {

struct Machine {
  std::string cpu;
  uint32_t cores = 0;      // usable by this process
  double load_before = 0;  // load average of the last minute
  double load_after = 0;
  std::string date;  // UTC, ISO 8601
  std::string compiler;
  std::string keel;
  std::string onednn;         // "oneDNN 2.6.3", or why absent
  std::string vulkan_device;  // or why absent
  std::string vulkan_driver;  // "llvmpipe Mesa 22.3.6 (LLVM 15.0.6)"
  std::string cuda_device;    // as for Vulkan
  std::string cuda_driver;    // "CUDA 13.0, /usr/lib/x86_64-linux-gnu/libcuda.so.1"
  std::string cuda_pytorch;   // as for Vulkan; empty if no figure needed PyTorch
};

// Fills all members except load_after (known after the measurement) and vulkan_*, cuda_* (known
// from the device).
Machine examine_machine();
double load_average();
// Returns the size of the third-level cache; a guess (32 MiB) where the system does not report the
// size.
uint64_t cache_bytes();

}  // namespace keel::bench

#endif  // KEEL_BENCH_MACHINE_H_
