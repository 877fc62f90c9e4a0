#include "backends/cpu/gemm_bf16.h"

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

const char* bf16_library() {
  return "";
}

}  // namespace keel::cpu::gemm
