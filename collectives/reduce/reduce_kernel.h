// SPDX-License-Identifier: Apache-2.0
// Loops of reduce(), compiled for several instruction sets.
#ifndef KEEL_COLLECTIVES_REDUCE_REDUCE_KERNEL_H_
#define KEEL_COLLECTIVES_REDUCE_REDUCE_KERNEL_H_

#include <keel/keel.h>

#include <cstdint>
#include <span>

namespace keel {

// Arguments of reduce(), as plain pointers: each kernel file compiles its includes for its own
// instruction set, so inline functions of foreign headers may not be used here.
struct ReduceCall {
  keel_dtype dtype;
  keel_reduction reduction;
  const void* const* sources;
  uint64_t source_count;
  void* const* destinations;
  uint64_t destination_count;
  uint64_t count;
  const double* factors;  // one per source, for KEEL_PREMUL_SUM
  bool streaming;
  uint64_t divisor = 0;  // for KEEL_AVG; 0: |source_count|
};

// All kernels give the same bits.
void reduce_generic(const ReduceCall& call);  // the compiler's baseline
void reduce_avx2(const ReduceCall& call);     // AVX2 and F16C
void reduce_avx512(const ReduceCall& call);   // AVX-512 F, BW, DQ, VL

struct ReduceKernel {
  const char* name;
  void (*reduce)(const ReduceCall& call);
};

// The kernels supported by the processor, the fastest last.
std::span<const ReduceKernel> reduce_kernels();

}  // namespace keel

#endif  // KEEL_COLLECTIVES_REDUCE_REDUCE_KERNEL_H_
