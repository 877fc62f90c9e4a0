// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/gemm/gemm_bf16.h"

namespace keel::cpu::gemm {

bool has_bf16() {
  return false;
}

bool has_bf16_tiles() {
  return false;
}

keel_status multiply_bf16(const Product&, keel_dtype) {
  return KEEL_UNSUPPORTED;
}

Matrix panels_of_bf16(int64_t) {
  return {};
}

keel_status pack_bf16(const Matrix&, int64_t, int64_t, int64_t, const Matrix&) {
  return KEEL_UNSUPPORTED;
}

const char* bf16_library() {
  return "";
}

}  // namespace keel::cpu::gemm
