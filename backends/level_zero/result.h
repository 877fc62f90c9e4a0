// SPDX-License-Identifier: Apache-2.0
// Maps Level Zero's results to ABI statuses.
#ifndef KEEL_BACKENDS_LEVEL_ZERO_RESULT_H_
#define KEEL_BACKENDS_LEVEL_ZERO_RESULT_H_

#include <keel/abi.h>

#include <string>

#include "vendor/level_zero.h"

namespace keel::gpu {

keel_status status_of(ze::Result result);
// Whether |result| means that the device no longer works in this process.
bool is_fatal(ze::Result result);
// "zeMemAllocDevice: ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY (0x70000003)"
std::string text_of(const char* call, ze::Result result);

}  // namespace keel::gpu

#endif  // KEEL_BACKENDS_LEVEL_ZERO_RESULT_H_
