// SPDX-License-Identifier: Apache-2.0
// Devices and results.
#include <cuda.h>

#include <cstdio>
#include <cstring>

#include "emulator/shims/cuda/driver.h"
#include "emulator/shims/cuda/results.h"
#include "emulator/shims/hip/current_device.h"

using namespace keel::emulator::hip;  // NOLINT: the functions below are C functions
using keel::emulator::cuda::Driver;

namespace {

struct Name {
  int error;
  const char* name;
};
constexpr Name kNames[] = {
    {0, "hipSuccess"},
    {1, "hipErrorInvalidValue"},
    {2, "hipErrorOutOfMemory"},
    {3, "hipErrorNotInitialized"},
    {100, "hipErrorNoDevice"},
    {101, "hipErrorInvalidDevice"},
    {200, "hipErrorInvalidImage"},
    {201, "hipErrorInvalidContext"},
    {205, "hipErrorMapFailed"},
    {208, "hipErrorAlreadyMapped"},
    {209, "hipErrorNoBinaryForGpu"},
    {214, "hipErrorECCNotCorrectable"},
    {217, "hipErrorPeerAccessUnsupported"},
    {400, "hipErrorInvalidHandle"},
    {500, "hipErrorNotFound"},
    {600, "hipErrorNotReady"},
    {700, "hipErrorIllegalAddress"},
    {702, "hipErrorLaunchTimeOut"},
    {704, "hipErrorPeerAccessAlreadyEnabled"},
    {709, "hipErrorContextIsDestroyed"},
    {712, "hipErrorHostMemoryAlreadyRegistered"},
    {713, "hipErrorHostMemoryNotRegistered"},
    {719, "hipErrorLaunchFailure"},
    {801, "hipErrorNotSupported"},
    {900, "hipErrorStreamCaptureUnsupported"},
    {901, "hipErrorStreamCaptureInvalidated"},
    {907, "hipErrorCapturedEvent"},
    {999, "hipErrorUnknown"},
};

template <typename Body>
hipError_t when_ready(Body&& body) {
  const CUresult ready = initialize();
  return result_of(ready == CUDA_SUCCESS ? body() : ready);
}

bool is_wide() {
  return Driver::get().settings().warp == 64;
}

}  // namespace

extern "C" {

hipError_t hipInit(unsigned int flags) {
  return flags == 0 ? result_of(initialize()) : result_of(CUDA_ERROR_INVALID_VALUE);
}

hipError_t hipRuntimeGetVersion(int* version) {
  return result_of(cuDriverGetVersion(version));
}

const char* hipGetErrorName(hipError_t error) {
  for (const Name& each : kNames) {
    if (each.error == error) return each.name;
  }
  return "hipErrorUnknown";
}

const char* hipGetErrorString(hipError_t error) {
  if (error == CUDA_ERROR_NO_DEVICE) return "no ROCm-capable device is detected";
  const char* const text = keel::emulator::cuda::result_text(static_cast<CUresult>(error));
  return text == nullptr ? "unknown error" : text;
}

hipError_t hipGetDeviceCount(int* count) {
  return when_ready([&] { return cuDeviceGetCount(count); });
}

hipError_t hipSetDevice(int device) {
  return result_of(select_device(device));
}

hipError_t hipGetDevice(int* device) {
  return when_ready([&] {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *device = current_device();
    return CUDA_SUCCESS;
  });
}

hipError_t hipDeviceGet(hipDevice_t* device, int ordinal) {
  return when_ready([&] { return cuDeviceGet(device, ordinal); });
}

hipError_t hipDeviceGetAttribute(int* value, hipDeviceAttribute_t attribute, int device) {
  return when_ready([&] {
    switch (attribute) {
      case hipDeviceAttributeConcurrentManagedAccess:
        return cuDeviceGetAttribute(value, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, device);
      case hipDeviceAttributeMultiprocessorCount:
        return cuDeviceGetAttribute(value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
      case hipDeviceAttributeStreamPrioritiesSupported:
        return cuDeviceGetAttribute(value, CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, device);
      case hipDeviceAttributeWarpSize:
        *value = is_wide() ? 64 : 32;
        return CUDA_SUCCESS;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  });
}

hipError_t hipDeviceGetName(char* name, int size, hipDevice_t device) {
  return when_ready([&] { return cuDeviceGetName(name, size, device); });
}

hipError_t hipDeviceGetPCIBusId(char* address, int size, int device) {
  return when_ready([&] { return cuDeviceGetPCIBusId(address, size, device); });
}

hipError_t hipDeviceGetUuid(hipUUID* uuid, hipDevice_t device) {
  return when_ready([&] {
    CUuuid native = {};
    const CUresult result = cuDeviceGetUuid_v2(&native, device);
    static_assert(sizeof(native) == sizeof(*uuid));
    std::memcpy(uuid, &native, sizeof(native));
    return result;
  });
}

hipError_t hipDeviceTotalMem(size_t* bytes, hipDevice_t device) {
  return when_ready([&] { return cuDeviceTotalMem(bytes, device); });
}

// Fills the names alone.
hipError_t hipGetDeviceProperties(hipDevicePropR0000* properties, int device) {
  return when_ready([&] {
    *properties = {};
    const std::string& told = keel::emulator::cuda::Driver::get().settings().architecture;
    std::snprintf(properties->gcnArchName, sizeof(properties->gcnArchName), "%s",
                  !told.empty() ? told.c_str()
                  : is_wide()   ? "gfx90a:sramecc+:xnack-"
                                : "gfx1030");
    return cuDeviceGetName(properties->before, 256, device);
  });
}

hipError_t hipDeviceCanAccessPeer(int* can, int device, int peer) {
  return when_ready([&] { return cuDeviceCanAccessPeer(can, device, peer); });
}

hipError_t hipDeviceEnablePeerAccess(int peer, unsigned int flags) {
  return on_device([&] {
    CUcontext context = nullptr;
    const CUresult opened = open_device(peer, &context);
    if (opened != CUDA_SUCCESS) return opened;
    if (peer == current_device()) return CUDA_ERROR_INVALID_DEVICE;
    return cuCtxEnablePeerAccess(context, flags);
  });
}

hipError_t hipDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return on_device([&] { return cuCtxGetStreamPriorityRange(least, greatest); });
}

}  // extern "C"
