// SPDX-License-Identifier: Apache-2.0
// Device and host memory, and its passing to other processes.
#include <cuda.h>

#include <cstring>

#include "emulator/shims/hip/current_device.h"

using namespace keel::emulator::hip;  // NOLINT: the functions below are C functions

static_assert(sizeof(CUipcMemHandle) == sizeof(hipIpcMemHandle_t));

extern "C" {

hipError_t hipMalloc(hipDeviceptr_t* pointer, size_t size) {
  return on_device([&] {
    if (pointer != nullptr && size == 0) {
      *pointer = 0;
      return CUDA_SUCCESS;
    }
    return cuMemAlloc(pointer, size);
  });
}

hipError_t hipMallocManaged(hipDeviceptr_t* pointer, size_t size, unsigned int flags) {
  return on_device([&] { return cuMemAllocManaged(pointer, size, flags); });
}

hipError_t hipFree(hipDeviceptr_t pointer) {
  return on_device([&] { return pointer == 0 ? CUDA_SUCCESS : cuMemFree(pointer); });
}

hipError_t hipHostMalloc(void** pointer, size_t size, unsigned int flags) {
  return on_device([&] { return cuMemHostAlloc(pointer, size, flags); });
}

hipError_t hipHostFree(void* pointer) {
  return on_device([&] { return pointer == nullptr ? CUDA_SUCCESS : cuMemFreeHost(pointer); });
}

hipError_t hipHostRegister(void* pointer, size_t size, unsigned int flags) {
  return on_device([&] { return cuMemHostRegister(pointer, size, flags); });
}

hipError_t hipHostUnregister(void* pointer) {
  return on_device([&] { return cuMemHostUnregister(pointer); });
}

hipError_t hipHostGetDevicePointer(hipDeviceptr_t* pointer, void* host, unsigned int flags) {
  return on_device([&] { return cuMemHostGetDevicePointer(pointer, host, flags); });
}

hipError_t hipMemGetInfo(size_t* free, size_t* total) {
  return on_device([&] { return cuMemGetInfo(free, total); });
}

hipError_t hipMemGetAddressRange(hipDeviceptr_t* base, size_t* size, hipDeviceptr_t pointer) {
  return on_device([&] { return cuMemGetAddressRange(base, size, pointer); });
}

hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t* handle, hipDeviceptr_t pointer) {
  return on_device([&] {
    CUipcMemHandle native = {};
    const CUresult result = cuIpcGetMemHandle(&native, pointer);
    std::memcpy(handle, &native, sizeof(native));
    return result;
  });
}

// The flag is 0 or 1, by the release of the caller's header.
hipError_t hipIpcOpenMemHandle(hipDeviceptr_t* pointer, hipIpcMemHandle_t handle,
                               unsigned int flags) {
  return on_device([&] {
    if (flags > 1) return CUDA_ERROR_INVALID_VALUE;
    CUipcMemHandle native = {};
    std::memcpy(&native, &handle, sizeof(native));
    return cuIpcOpenMemHandle(pointer, native, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  });
}

hipError_t hipIpcCloseMemHandle(hipDeviceptr_t pointer) {
  return on_device([&] { return cuIpcCloseMemHandle(pointer); });
}

}  // extern "C"
