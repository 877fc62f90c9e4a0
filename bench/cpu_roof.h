// How fast the cores multiply and add when nothing else holds them up.
#ifndef KEEL_BENCH_CPU_ROOF_H_
#define KEEL_BENCH_CPU_ROOF_H_

#include <cstdint>

namespace keel::bench {

// Runs chains of fused multiply-adds in registers, with the widest vectors of this CPU,
// on the calling thread. Returns the number of floating-point operations done, two for
// each multiply-add: a constant.
double run_cpu_multiply_adds();

}  // namespace keel::bench

#endif  // KEEL_BENCH_CPU_ROOF_H_
