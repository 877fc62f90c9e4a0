// SPDX-License-Identifier: Apache-2.0
// The part of HIP's runtime (libamdhip64.so) that is called here, as of ROCm 5.2. Names, numbers
// and argument lists are those of hip/hip_runtime_api.h. Results are int, and device pointers are
// integers of a pointer's size, both of which calls pass as the vendor's types.
#ifndef KEEL_VENDOR_HIP_H_
#define KEEL_VENDOR_HIP_H_

#include <cstddef>
#include <cstdint>

using hipError_t = int;  // 0: success
using hipDevice_t = int;
using hipDeviceptr_t = unsigned long long;  // NOLINT(google-runtime-int): as CUDA's
using hipStream_t = struct ihipStream_t*;
using hipEvent_t = struct ihipEvent_t*;
using hipModule_t = struct ihipModule_t*;
using hipFunction_t = struct ihipModuleSymbol_t*;

struct hipIpcMemHandle_t {
  char reserved[64];
};
struct hipUUID {
  char bytes[16];
};

// The members of hipDeviceProp_t that are read: where the layout of ROCm 5, which the function
// hipGetDeviceProperties keeps in later releases, has the name of the architecture.
struct hipDevicePropR0000 {
  char before[396];
  char gcnArchName[256];
  char after[140];
};
static_assert(sizeof(hipDevicePropR0000) == 792);

enum hipDeviceAttribute_t : int {
  hipDeviceAttributeConcurrentManagedAccess = 9,
  hipDeviceAttributeMultiprocessorCount = 63,
  hipDeviceAttributeStreamPrioritiesSupported = 78,
  hipDeviceAttributeWarpSize = 87,
};

enum hipStreamCaptureMode : int {
  hipStreamCaptureModeGlobal = 0,
  hipStreamCaptureModeThreadLocal = 1,
  hipStreamCaptureModeRelaxed = 2,
};
enum hipStreamCaptureStatus : int {
  hipStreamCaptureStatusNone = 0,
  hipStreamCaptureStatusActive = 1,
  hipStreamCaptureStatusInvalidated = 2,
};

extern "C" {

hipError_t hipInit(unsigned int flags);
hipError_t hipRuntimeGetVersion(int* version);  // 50221153 is 5.2.21153
const char* hipGetErrorName(hipError_t error);
const char* hipGetErrorString(hipError_t error);
hipError_t hipGetDeviceCount(int* count);
hipError_t hipSetDevice(int device);
hipError_t hipGetDevice(int* device);
hipError_t hipDeviceGet(hipDevice_t* device, int ordinal);
hipError_t hipDeviceGetAttribute(int* value, hipDeviceAttribute_t attribute, int device);
hipError_t hipDeviceGetName(char* name, int size, hipDevice_t device);
hipError_t hipDeviceGetPCIBusId(char* address, int size, int device);
hipError_t hipDeviceGetUuid(hipUUID* uuid, hipDevice_t device);
hipError_t hipDeviceTotalMem(size_t* bytes, hipDevice_t device);
hipError_t hipGetDeviceProperties(hipDevicePropR0000* properties, int device);
hipError_t hipDeviceCanAccessPeer(int* can, int device, int peer);
hipError_t hipDeviceEnablePeerAccess(int peer, unsigned int flags);
hipError_t hipDeviceGetStreamPriorityRange(int* least, int* greatest);
hipError_t hipDeviceSynchronize();

hipError_t hipMalloc(hipDeviceptr_t* pointer, size_t size);
hipError_t hipMallocManaged(hipDeviceptr_t* pointer, size_t size, unsigned int flags);
hipError_t hipFree(hipDeviceptr_t pointer);
hipError_t hipHostMalloc(void** pointer, size_t size, unsigned int flags);
hipError_t hipHostFree(void* pointer);
hipError_t hipHostRegister(void* pointer, size_t size, unsigned int flags);
hipError_t hipHostUnregister(void* pointer);
hipError_t hipHostGetDevicePointer(hipDeviceptr_t* pointer, void* host, unsigned int flags);
hipError_t hipMemGetInfo(size_t* free, size_t* total);
hipError_t hipMemGetAddressRange(hipDeviceptr_t* base, size_t* size, hipDeviceptr_t pointer);
hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t* handle, hipDeviceptr_t pointer);
hipError_t hipIpcOpenMemHandle(hipDeviceptr_t* pointer, hipIpcMemHandle_t handle,
                               unsigned int flags);
hipError_t hipIpcCloseMemHandle(hipDeviceptr_t pointer);

hipError_t hipStreamCreateWithPriority(hipStream_t* stream, unsigned int flags, int priority);
hipError_t hipStreamDestroy(hipStream_t stream);
hipError_t hipStreamQuery(hipStream_t stream);
hipError_t hipStreamGetDevice(hipStream_t stream, hipDevice_t* device);  // since ROCm 5.6
hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned int flags);
hipError_t hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus* status);
hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode* mode);
hipError_t hipEventCreateWithFlags(hipEvent_t* event, unsigned int flags);
hipError_t hipEventDestroy(hipEvent_t event);
hipError_t hipEventElapsedTime(float* milliseconds, hipEvent_t start, hipEvent_t end);
hipError_t hipEventQuery(hipEvent_t event);
hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream);

hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t to, const void* from, size_t size, hipStream_t stream);
hipError_t hipMemcpyDtoHAsync(void* to, hipDeviceptr_t from, size_t size, hipStream_t stream);
hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t to, hipDeviceptr_t from, size_t size,
                              hipStream_t stream);
hipError_t hipMemcpyPeerAsync(hipDeviceptr_t to, int to_device, hipDeviceptr_t from,
                              int from_device, size_t size, hipStream_t stream);
hipError_t hipMemsetD8Async(hipDeviceptr_t to, unsigned char value, size_t count,
                            hipStream_t stream);
hipError_t hipMemsetD16Async(hipDeviceptr_t to, unsigned short value,  // NOLINT: as HIP's
                             size_t count, hipStream_t stream);
hipError_t hipMemsetD32Async(hipDeviceptr_t to, unsigned int value, size_t count,
                             hipStream_t stream);

hipError_t hipModuleLoadData(hipModule_t* module, const void* image);
hipError_t hipModuleUnload(hipModule_t module);
hipError_t hipModuleGetFunction(hipFunction_t* function, hipModule_t module, const char* name);
hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned int grid_x, unsigned int grid_y,
                                 unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                 unsigned int block_z, unsigned int shared_bytes,
                                 hipStream_t stream, void** parameters, void** extra);
}

#endif  // KEEL_VENDOR_HIP_H_
