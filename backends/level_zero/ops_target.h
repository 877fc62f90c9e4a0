// SPDX-License-Identifier: Apache-2.0
// The device and the stream of the shared operators: Level Zero's own.
#ifndef KEEL_BACKENDS_LEVEL_ZERO_OPS_TARGET_H_
#define KEEL_BACKENDS_LEVEL_ZERO_OPS_TARGET_H_

#include "backends/level_zero/device.h"
#include "backends/level_zero/stream.h"

// The plugin's name, before names of kernels.
#define KEEL_GPU "level_zero"
// No library of matrix products is called.
#define KEEL_GPU_PRODUCTS "none"

#endif  // KEEL_BACKENDS_LEVEL_ZERO_OPS_TARGET_H_
