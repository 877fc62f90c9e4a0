// SPDX-License-Identifier: Apache-2.0
// Modules and launches.
#include <cuda.h>

#include "emulator/shims/hip/current_device.h"

using namespace keel::emulator::hip;  // NOLINT: the functions below are C functions

extern "C" {

hipError_t hipModuleLoadData(hipModule_t* module, const void* image) {
  return on_device([&] {
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
