// SPDX-License-Identifier: Apache-2.0
// Results of the CUDA driver as the ABI's statuses.
#ifndef KEEL_BACKENDS_CUDA_RESULT_H_
#define KEEL_BACKENDS_CUDA_RESULT_H_

#include <cuda.h>
#include <keel/abi.h>

namespace keel::cuda {

keel_status status_of(CUresult result);
// Whether the context has died of it: the driver gives it to every later call too.
bool is_fatal(CUresult result);

}  // namespace keel::cuda

#endif  // KEEL_BACKENDS_CUDA_RESULT_H_
