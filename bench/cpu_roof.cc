// SPDX-License-Identifier: Apache-2.0
#include "bench/cpu_roof.h"

// Highway compiles this file once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/cpu_roof.cc"
#include <hwy/foreach_target.h>
// after foreach_target.h:
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace keel::bench::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Two units with a latency of 4 or 5 cycles need 10 chains; 12 chains and two factors fit the 16
// registers of AVX2.
double multiply_adds() {
  constexpr int64_t kSteps = 1 << 21;  // 4 ms, long compared with waking the other threads
  constexpr int kChains = 12;
  const hn::ScalableTag<float> d;
  const auto factor = hn::Set(d, 0.5f);
  const auto addend = hn::Set(d, 1.0f);
  auto c0 = addend, c1 = addend, c2 = addend, c3 = addend, c4 = addend, c5 = addend;
  auto c6 = addend, c7 = addend, c8 = addend, c9 = addend, c10 = addend, c11 = addend;
  for (int64_t step = 0; step < kSteps; ++step) {
    c0 = hn::MulAdd(c0, factor, addend);
    c1 = hn::MulAdd(c1, factor, addend);
    c2 = hn::MulAdd(c2, factor, addend);
    c3 = hn::MulAdd(c3, factor, addend);
    c4 = hn::MulAdd(c4, factor, addend);
    c5 = hn::MulAdd(c5, factor, addend);
    c6 = hn::MulAdd(c6, factor, addend);
    c7 = hn::MulAdd(c7, factor, addend);
    c8 = hn::MulAdd(c8, factor, addend);
    c9 = hn::MulAdd(c9, factor, addend);
    c10 = hn::MulAdd(c10, factor, addend);
    c11 = hn::MulAdd(c11, factor, addend);
    // Hides the values from the compiler, which would compute equal chains only once.
    asm volatile("" : "+x"(c0), "+x"(c1), "+x"(c2), "+x"(c3), "+x"(c4), "+x"(c5));
    asm volatile("" : "+x"(c6), "+x"(c7), "+x"(c8), "+x"(c9), "+x"(c10), "+x"(c11));
  }
  return 2.0 * kSteps * kChains * static_cast<double>(hn::Lanes(d));
}

}  // namespace keel::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace keel::bench {

HWY_EXPORT(multiply_adds);

double run_cpu_multiply_adds() {
  return HWY_DYNAMIC_DISPATCH(multiply_adds)();
}

CpuRoof::CpuRoof(uint32_t cores) {
  for (uint32_t i = 1; i < cores; ++i) others_.push_back(std::make_unique<Worker>());
  operations_ = run_cpu_multiply_adds() * cores;
}

void CpuRoof::run() {
  for (const auto& other : others_) other->start(task_);
  task_();
  for (const auto& other : others_) other->wait();
}

}  // namespace keel::bench
#endif
