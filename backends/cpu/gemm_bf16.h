// SPDX-License-Identifier: Apache-2.0
// Products of bfloat16 matrices by the processor's own instructions for them, on the calling thread
// alone: oneDNN's (gemm_bf16_onednn.cc), or none (gemm_bf16_missing.cc).
#ifndef KEEL_BACKENDS_CPU_GEMM_BF16_H_
#define KEEL_BACKENDS_CPU_GEMM_BF16_H_

#include <keel/abi.h>

#include "backends/cpu/gemm.h"

namespace keel::cpu::gemm {

// Whether multiply_bf16 runs on this processor.
bool has_bf16();
// Whether it multiplies by tiles (AMX), ten times as fast as by vectors.
bool has_bf16_tiles();
// a, b are bfloat16, c is |c_dtype|: bfloat16 or float32; sums are float32.
keel_status multiply_bf16(const Product& product, keel_dtype c_dtype);

// The panels of a b of |k| rows that it reads fastest, without their memory: of
// KEEL_PACKED_EXTENT(k) * KEEL_PACKED_EXTENT(n) elements at most. Two rows each lie element by
// element, so that the offsets of the first row's panels are all that a Matrix can say of them.
Matrix panels_of_bf16(int64_t k);
// Copies columns [first, first + columns) of a |b| of |k| rows into |panels|; |first| is the first
// of a panel.
keel_status pack_bf16(const Matrix& b, int64_t k, int64_t first, int64_t columns,
                      const Matrix& panels);

// Name and version of the library; empty where there is none.
const char* bf16_library();

}  // namespace keel::cpu::gemm

#endif  // KEEL_BACKENDS_CPU_GEMM_BF16_H_
