// SPDX-License-Identifier: Apache-2.0
// The loops behind reduce(), compiled for several instruction sets.
#ifndef KEEL_COLLECTIVES_REDUCE_KERNEL_H_
#define KEEL_COLLECTIVES_REDUCE_KERNEL_H_

#include <keel/keel.h>

#include <cstdint>
#include <span>

namespace keel {

// Arguments of reduce(). Plain pointers: what the kernels' files include they compile for
// an instruction set of their own, so no inline function of another header may be in it.
struct ReduceCall {
  keel_dtype dtype;
  keel_reduction reduction;
  const void* const* sources;
  uint64_t source_count;
  void* const* destinations;
  uint64_t destination_count;
  uint64_t count;
  const double* factors;  // one a source, of KEEL_PREMUL_SUM
  bool streaming;
  uint64_t divisor = 0;  // of KEEL_AVG; 0: |source_count|
};

// All give the same bits.
void reduce_generic(const ReduceCall& call);  // what the compiler may use anywhere
void reduce_avx2(const ReduceCall& call);     // and F16C
void reduce_avx512(const ReduceCall& call);   // F, BW, DQ, VL

struct ReduceKernel {
  const char* name;
  void (*reduce)(const ReduceCall& call);
};

// Those that this processor can run, the fastest last.
std::span<const ReduceKernel> reduce_kernels();

}  // namespace keel

#endif  // KEEL_COLLECTIVES_REDUCE_KERNEL_H_
