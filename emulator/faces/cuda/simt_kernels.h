// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_FACES_CUDA_SIMT_KERNELS_H_
#define KEEL_EMULATOR_FACES_CUDA_SIMT_KERNELS_H_

#include <string>

#include "emulator/memory.h"
#include "emulator/simt/library.h"
#include "emulator/status.h"

namespace keel::emulator::cuda {

// The kernels of the very |image|, code for real chips, compiled for the host: the family of
// libkeel_simt_host.so beside this library that stands for these bytes. NULL where none does, or
// the file is not there; |*out_why| says which. Lives as long as the process. Thread-safe.
const simt::Library* find_simt_kernels(const void* image, std::string* out_why);

// Runs a launch of |kernel| on the queue's thread. A failure's text goes to stderr too: through
// the driver's interface only a number comes back.
Status run_simt_kernel(const simt::Library& library, const simt::Kernel& kernel,
                       const simt::Grid& grid, const void* arguments, Access& access);

}  // namespace keel::emulator::cuda

#endif  // KEEL_EMULATOR_FACES_CUDA_SIMT_KERNELS_H_
