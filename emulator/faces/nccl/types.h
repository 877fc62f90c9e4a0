// SPDX-License-Identifier: Apache-2.0
// The library's types and reductions in the words of the emulated chip.
#ifndef KEEL_EMULATOR_FACES_NCCL_TYPES_H_
#define KEEL_EMULATOR_FACES_NCCL_TYPES_H_

#include <nccl.h>

#include "emulator/ccl/call.h"

namespace keel::emulator::nccl {

// False for a number that is no type.
bool translate(ncclDataType_t type, ccl::Type* out_type);
// False for one that is made by ncclRedOpCreatePreMulSum, or by nobody.
bool translate(ncclRedOp_t reduction, ccl::Reduction* out_reduction);

}  // namespace keel::emulator::nccl

#endif  // KEEL_EMULATOR_FACES_NCCL_TYPES_H_
