// SPDX-License-Identifier: Apache-2.0
#include "emulator/spirv/arithmetic.h"

#include <bit>

#include "emulator/spirv/module.h"

namespace keel::emulator::spirv {
namespace {

template <typename T>
T compute_in(uint32_t code, T a, T b) {
  switch (code) {
    case kOpFAdd:
      return a + b;
    case kOpFSub:
      return a - b;
    case kOpFMul:
      return a * b;
    default:
      return a / b;
  }
}

}  // namespace

bool is_real(uint32_t code) {
  return code == kOpFAdd || code == kOpFSub || code == kOpFMul || code == kOpFDiv;
}

bool compute_real(uint32_t code, uint64_t bytes, uint64_t a, uint64_t b, uint64_t* out_result) {
  if (bytes == 4) {
    const auto left = std::bit_cast<float>(static_cast<uint32_t>(a));
    const auto right = std::bit_cast<float>(static_cast<uint32_t>(b));
    *out_result = std::bit_cast<uint32_t>(compute_in(code, left, right));
    return true;
  }
  if (bytes != 8) return false;
  *out_result =
      std::bit_cast<uint64_t>(compute_in(code, std::bit_cast<double>(a), std::bit_cast<double>(b)));
  return true;
}

bool compute_integer(uint32_t code, uint64_t a, uint64_t b, int64_t signed_a, int64_t signed_b,
                     uint64_t* out_result) {
  const auto give = [&](uint64_t result) {
    *out_result = result;
    return true;
  };
  switch (code) {
    case kOpNot:
      return give(~a);
    case kOpIAdd:
      return give(a + b);
    case kOpISub:
      return give(a - b);
    case kOpIMul:
      return give(a * b);
    case kOpUDiv:
      return give(b == 0 ? 0 : a / b);
    case kOpUMod:
      return give(b == 0 ? 0 : a % b);
    case kOpShiftRightLogical:
      return give(b < 64 ? a >> b : 0);
    case kOpShiftLeftLogical:
      return give(b < 64 ? a << b : 0);
    case kOpBitwiseOr:
      return give(a | b);
    case kOpBitwiseXor:
      return give(a ^ b);
    case kOpBitwiseAnd:
      return give(a & b);
    case kOpIEqual:
      return give(a == b ? 1 : 0);
    case kOpINotEqual:
      return give(a != b ? 1 : 0);
    case kOpUGreaterThan:
      return give(a > b ? 1 : 0);
    case kOpUGreaterThanEqual:
      return give(a >= b ? 1 : 0);
    case kOpULessThan:
      return give(a < b ? 1 : 0);
    case kOpULessThanEqual:
      return give(a <= b ? 1 : 0);
    case kOpSGreaterThan:
      return give(signed_a > signed_b ? 1 : 0);
    case kOpSGreaterThanEqual:
      return give(signed_a >= signed_b ? 1 : 0);
    case kOpSLessThan:
      return give(signed_a < signed_b ? 1 : 0);
    case kOpSLessThanEqual:
      return give(signed_a <= signed_b ? 1 : 0);
    default:
      return false;
  }
}

}  // namespace keel::emulator::spirv
