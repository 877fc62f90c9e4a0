// SPDX-License-Identifier: Apache-2.0
// The device and the stream of the shared operators: HIP's are those of backends/gpu.
#ifndef KEEL_BACKENDS_HIP_OPS_TARGET_H_
#define KEEL_BACKENDS_HIP_OPS_TARGET_H_

#include "backends/gpu/device.h"
#include "backends/gpu/stream.h"

#endif  // KEEL_BACKENDS_HIP_OPS_TARGET_H_
