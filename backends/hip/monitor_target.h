// SPDX-License-Identifier: Apache-2.0
// The management library, as the layer of backends/gpu sees it.
#ifndef KEEL_BACKENDS_HIP_MONITOR_TARGET_H_
#define KEEL_BACKENDS_HIP_MONITOR_TARGET_H_

#include "backends/hip/rocm_smi.h"

namespace keel::gpu {

using Monitor = hip::RocmSmi;

}  // namespace keel::gpu

#endif  // KEEL_BACKENDS_HIP_MONITOR_TARGET_H_
