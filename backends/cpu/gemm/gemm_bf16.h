// SPDX-License-Identifier: Apache-2.0
// Products of bfloat16 matrices with the processor's bfloat16 instructions, on the calling thread
// alone: by oneDNN (gemm_bf16_onednn.cc), or not available (gemm_bf16_missing.cc).
#ifndef KEEL_BACKENDS_CPU_GEMM_GEMM_BF16_H_
#define KEEL_BACKENDS_CPU_GEMM_GEMM_BF16_H_

#include <keel/abi.h>

#include "backends/cpu/gemm/gemm.h"

namespace keel::cpu::gemm {

// Whether multiply_bf16 runs on this processor.
bool has_bf16();
// Whether multiply_bf16 uses tiles (AMX), ten times as fast as vectors.
bool has_bf16_tiles();
// a, b are bfloat16, c is |c_dtype|: bfloat16 or float32. Accumulates in float32.
keel_status multiply_bf16(const Product& product, keel_dtype c_dtype);

// The panel layout of a b of |k| rows that multiply_bf16 reads fastest, with |data| NULL. Takes at
// most KEEL_PACKED_EXTENT(k) * KEEL_PACKED_EXTENT(n) elements. Panels interleave pairs of rows
// element by element, so the Matrix gives only the offsets of the first row's panels.
Matrix panels_of_bf16(int64_t k);
// Copies columns [first, first + columns) of |b|, which has |k| rows, into |panels|; |first| is the
// first column of a panel.
keel_status pack_bf16(const Matrix& b, int64_t k, int64_t first, int64_t columns,
                      const Matrix& panels);

// Name and version of the library; empty where there is none.
const char* bf16_library();

}  // namespace keel::cpu::gemm

#endif  // KEEL_BACKENDS_CPU_GEMM_GEMM_BF16_H_
