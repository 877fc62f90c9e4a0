// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_SHIMS_CUDA_SIMT_KERNELS_H_
#define KEEL_EMULATOR_SHIMS_CUDA_SIMT_KERNELS_H_

#include <string>
#include <string_view>

#include "emulator/memory.h"
#include "emulator/simt/library.h"
#include "emulator/status.h"

namespace keel::emulator::cuda {

// Returns the host-compiled kernels for |image|, which is code for real chips: the family of
// libkeel_simt_host.so, in this library's folder, whose image has the same bytes. Returns NULL,
// with the reason in |*out_why|, if no family matches or the file is missing. The result lives as
// long as the process. Thread-safe.
const simt::Library* find_simt_kernels(const void* image, std::string* out_why);

// Returns the image of |family|, as find_simt_kernels accepts it; NULL, with the reason in
// |*out_why|, likewise.
const void* image_of_family(std::string_view family, std::string* out_why);

// Runs a launch of |kernel| on the queue's thread. Writes a failure's text to stderr, too: the
// driver's interface returns only a number.
Status run_simt_kernel(const simt::Library& library, const simt::Kernel& kernel,
                       const simt::Grid& grid, const void* arguments, Access& access);

}  // namespace keel::emulator::cuda

#endif  // KEEL_EMULATOR_SHIMS_CUDA_SIMT_KERNELS_H_
