// SPDX-License-Identifier: Apache-2.0
// The sources of emulator/shims/nccl see RCCL by this header: its streams are the emulated
// driver's.
#ifndef KEEL_EMULATOR_SHIMS_RCCL_INCLUDE_NCCL_H_
#define KEEL_EMULATOR_SHIMS_RCCL_INCLUDE_NCCL_H_

#include <cuda.h>

#define ihipStream_t CUstream_st
#include "vendor/rccl.h"
#undef ihipStream_t

using cudaStream_t = CUstream;

#endif  // KEEL_EMULATOR_SHIMS_RCCL_INCLUDE_NCCL_H_
