// SPDX-License-Identifier: Apache-2.0
// Maps driver results to ABI statuses.
#ifndef KEEL_BACKENDS_GPU_RESULT_H_
#define KEEL_BACKENDS_GPU_RESULT_H_

#include <gpu_target.h>
#include <keel/abi.h>

namespace keel::gpu {

keel_status status_of(Result result);
// Whether |result| means that the context is dead: the driver then returns it from every later
// call.
bool is_fatal(Result result);

}  // namespace keel::gpu

#endif  // KEEL_BACKENDS_GPU_RESULT_H_
