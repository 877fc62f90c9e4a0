// SPDX-License-Identifier: Apache-2.0
// RCCL, as the layer of backends/gpu sees it.
#ifndef KEEL_BACKENDS_HIP_CCL_TARGET_H_
#define KEEL_BACKENDS_HIP_CCL_TARGET_H_

#include "vendor/rccl.h"

#define KEEL_GPU_CCL_ALL_TO_ALL "ncclAllToAll"

#endif  // KEEL_BACKENDS_HIP_CCL_TARGET_H_
