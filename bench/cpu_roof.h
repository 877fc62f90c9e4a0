// SPDX-License-Identifier: Apache-2.0
// Measures the peak multiply-add rate of the CPU's cores.
#ifndef KEEL_BENCH_CPU_ROOF_H_
#define KEEL_BENCH_CPU_ROOF_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "bench/worker.h"

namespace keel::bench {

// Runs chains of fused multiply-adds in registers, with the widest vectors of this CPU,
// on the calling thread. Returns the number of floating-point operations done, two for
// each multiply-add: a constant.
double run_cpu_multiply_adds();

// Runs the same work on |cores| cores at once.
class CpuRoof {
 public:
  explicit CpuRoof(uint32_t cores);
  double operations() const { return operations_; }  // of one run
  void run();

 private:
  const std::function<void()> task_ = [] { run_cpu_multiply_adds(); };
  double operations_;
  std::vector<std::unique_ptr<Worker>> others_;
};

}  // namespace keel::bench

#endif  // KEEL_BENCH_CPU_ROOF_H_
