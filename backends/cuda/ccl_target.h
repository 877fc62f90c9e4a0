// SPDX-License-Identifier: Apache-2.0
// NCCL, as the layer of backends/gpu sees it.
#ifndef KEEL_BACKENDS_CUDA_CCL_TARGET_H_
#define KEEL_BACKENDS_CUDA_CCL_TARGET_H_

#include <nccl.h>

// The all-to-all of 2.28.
#define KEEL_GPU_CCL_ALL_TO_ALL "ncclAlltoAll"

#endif  // KEEL_BACKENDS_CUDA_CCL_TARGET_H_
