// SPDX-License-Identifier: Apache-2.0
// Maps CUDA driver results to ABI statuses.
#ifndef KEEL_BACKENDS_CUDA_RESULT_H_
#define KEEL_BACKENDS_CUDA_RESULT_H_

#include <cuda.h>
#include <keel/abi.h>

namespace keel::cuda {

keel_status status_of(CUresult result);
// Whether |result| means that the context is dead: the driver then returns it from every later
// call.
bool is_fatal(CUresult result);

}  // namespace keel::cuda

#endif  // KEEL_BACKENDS_CUDA_RESULT_H_
