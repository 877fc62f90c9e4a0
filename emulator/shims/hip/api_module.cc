// SPDX-License-Identifier: Apache-2.0
// Modules and launches.
#include <cuda.h>

#include <cstdio>
#include <string>

#include "emulator/shims/cuda/driver.h"
#include "emulator/shims/cuda/host_image.h"
#include "emulator/shims/cuda/simt_kernels.h"
#include "emulator/shims/hip/compiled_code.h"
#include "emulator/shims/hip/current_device.h"

using namespace keel::emulator::hip;  // NOLINT: the functions below are C functions

extern "C" {

// A device of an architecture that the settings name has no code in any bundle.
hipError_t hipModuleLoadData(hipModule_t* module, const void* image) {
  return on_device([&] {
    if (module == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const char* const family = keel::emulator::hip::compiled_family(image); family != nullptr) {
      std::string why;
      image = keel::emulator::cuda::image_of_family(family, &why);
      if (image == nullptr) {
        std::fprintf(stderr, "keel: emulated HIP: %s\n", why.c_str());
        return CUDA_ERROR_INVALID_IMAGE;
      }
    } else if (keel::emulator::cuda::is_bundle(image) &&
               !keel::emulator::cuda::Driver::get().settings().architecture.empty()) {
      return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    return cuModuleLoadDataEx(reinterpret_cast<CUmodule*>(module), image, 0, nullptr, nullptr);
  });
}

hipError_t hipModuleUnload(hipModule_t module) {
  return on_device([&] { return cuModuleUnload(reinterpret_cast<CUmodule>(module)); });
}

hipError_t hipModuleGetFunction(hipFunction_t* function, hipModule_t module, const char* name) {
  return on_device([&] {
    return cuModuleGetFunction(reinterpret_cast<CUfunction*>(function),
                               reinterpret_cast<CUmodule>(module), name);
  });
}

hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned int grid_x, unsigned int grid_y,
                                 unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                 unsigned int block_z, unsigned int shared_bytes,
                                 hipStream_t stream, void** parameters, void** extra) {
  return on_device([&] {
    return cuLaunchKernel(reinterpret_cast<CUfunction>(function), grid_x, grid_y, grid_z, block_x,
                          block_y, block_z, shared_bytes, native(stream), parameters, extra);
  });
}

}  // extern "C"
