// SPDX-License-Identifier: Apache-2.0
// Translates NCCL types and reductions to those of the emulated chip.
#ifndef KEEL_EMULATOR_SHIMS_NCCL_TYPES_H_
#define KEEL_EMULATOR_SHIMS_NCCL_TYPES_H_

#include <nccl.h>

#include "emulator/ccl/call.h"

namespace keel::emulator::nccl {

// Returns false for an unknown type.
bool translate(ncclDataType_t type, ccl::Type* out_type);
// Returns false for a reduction made by ncclRedOpCreatePreMulSum, and for an unknown one.
bool translate(ncclRedOp_t reduction, ccl::Reduction* out_reduction);

}  // namespace keel::emulator::nccl

#endif  // KEEL_EMULATOR_SHIMS_NCCL_TYPES_H_
