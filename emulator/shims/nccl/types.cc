// SPDX-License-Identifier: Apache-2.0
#include "emulator/shims/nccl/types.h"

#include <array>

namespace keel::emulator::nccl {

bool translate(ncclDataType_t type, ccl::Type* out_type) {
  static constexpr std::array<ccl::Type, ncclNumTypes> kTypes = {
      ccl::Type::kInt8,    ccl::Type::kUint8,    ccl::Type::kInt32,      ccl::Type::kUint32,
      ccl::Type::kInt64,   ccl::Type::kUint64,   ccl::Type::kFloat16,    ccl::Type::kFloat32,
      ccl::Type::kFloat64, ccl::Type::kBfloat16, ccl::Type::kFloat8E4m3, ccl::Type::kFloat8E5m2};
  static_assert(ncclInt8 == 0 && ncclFloat16 == 6 && ncclBfloat16 == 9 && ncclFloat8e5m2 == 11);
  const auto number = static_cast<unsigned>(type);
  if (number >= kTypes.size()) return false;
  *out_type = kTypes[number];
  return true;
}

bool translate(ncclRedOp_t reduction, ccl::Reduction* out_reduction) {
  switch (reduction) {
    case ncclSum:
      *out_reduction = ccl::Reduction::kSum;
      return true;
    case ncclProd:
      *out_reduction = ccl::Reduction::kProduct;
      return true;
    case ncclMin:
      *out_reduction = ccl::Reduction::kMin;
      return true;
    case ncclMax:
      *out_reduction = ccl::Reduction::kMax;
      return true;
    case ncclAvg:
      *out_reduction = ccl::Reduction::kAverage;
      return true;
    default:
      return false;
  }
}

}  // namespace keel::emulator::nccl
