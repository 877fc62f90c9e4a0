// SPDX-License-Identifier: Apache-2.0
// HIP's runtime, as the layer of backends/gpu sees it: types, functions, and what differs from
// CUDA.
#ifndef KEEL_BACKENDS_HIP_GPU_TARGET_H_
#define KEEL_BACKENDS_HIP_GPU_TARGET_H_

#include <keel/abi.h>

#include <string>
#include <string_view>

#include "kernels/gpu/image.h"
#include "vendor/hip.h"

// The plugin's name, which begins the texts of its failures.
#define KEEL_GPU "hip"
// The collectives library.
#define KEEL_GPU_CCL "rccl"
#define KEEL_GPU_CCL_UPPER "RCCL"
#define KEEL_GPU_CCL_FILE "librccl.so.1"
// The library of matrix products, before names of kernels.
#define KEEL_GPU_PRODUCTS "rocblas"

namespace keel::gpu {

using Result = hipError_t;
using DeviceAddress = hipDeviceptr_t;
using NativeDevice = hipDevice_t;
using NativeContext = int;  // the device, which a thread selects; also names a device to its peers
using NativeStream = hipStream_t;
using NativeEvent = hipEvent_t;
using NativeModule = hipModule_t;
using NativeFunction = hipFunction_t;
using NativeUuid = hipUUID;
using IpcHandle = hipIpcMemHandle_t;
using CaptureMode = hipStreamCaptureMode;
using CaptureStatus = hipStreamCaptureStatus;
using DeviceAttribute = hipDeviceAttribute_t;

// The layer's name of a function, and HIP's.
#define KEEL_GPU_FUNCTIONS(X)                                   \
  X(CtxEnablePeerAccess, hipDeviceEnablePeerAccess)             \
  X(CtxGetStreamPriorityRange, hipDeviceGetStreamPriorityRange) \
  X(DeviceCanAccessPeer, hipDeviceCanAccessPeer)                \
  X(DeviceGet, hipDeviceGet)                                    \
  X(DeviceGetAttribute, hipDeviceGetAttribute)                  \
  X(DeviceGetCount, hipGetDeviceCount)                          \
  X(DeviceGetName, hipDeviceGetName)                            \
  X(DeviceGetPCIBusId, hipDeviceGetPCIBusId)                    \
  X(DeviceGetUuid, hipDeviceGetUuid)                            \
  X(DeviceTotalMem, hipDeviceTotalMem)                          \
  X(EventCreate, hipEventCreateWithFlags)                       \
  X(EventDestroy, hipEventDestroy)                              \
  X(EventElapsedTime, hipEventElapsedTime)                      \
  X(EventQuery, hipEventQuery)                                  \
  X(EventRecord, hipEventRecord)                                \
  X(GetDevice, hipGetDevice)                                    \
  X(GetDeviceProperties, hipGetDeviceProperties)                \
  X(GetErrorName, hipGetErrorName)                              \
  X(GetErrorString, hipGetErrorString)                          \
  X(Init, hipInit)                                              \
  X(LaunchKernel, hipModuleLaunchKernel)                        \
  X(MemAlloc, hipMalloc)                                        \
  X(MemAllocManaged, hipMallocManaged)                          \
  X(MemFree, hipFree)                                           \
  X(MemFreeHost, hipHostFree)                                   \
  X(MemGetInfo, hipMemGetInfo)                                  \
  X(MemHostAlloc, hipHostMalloc)                                \
  X(MemHostGetDevicePointer, hipHostGetDevicePointer)           \
  X(MemHostRegister, hipHostRegister)                           \
  X(MemHostUnregister, hipHostUnregister)                       \
  X(MemcpyDtoDAsync, hipMemcpyDtoDAsync)                        \
  X(MemcpyDtoHAsync, hipMemcpyDtoHAsync)                        \
  X(MemcpyHtoDAsync, hipMemcpyHtoDAsync)                        \
  X(MemcpyPeerAsync, hipMemcpyPeerAsync)                        \
  X(MemsetD16Async, hipMemsetD16Async)                          \
  X(MemsetD32Async, hipMemsetD32Async)                          \
  X(MemsetD8Async, hipMemsetD8Async)                            \
  X(ModuleGetFunction, hipModuleGetFunction)                    \
  X(ModuleLoadDataEx, hipModuleLoadData)                        \
  X(ModuleUnload, hipModuleUnload)                              \
  X(SetDevice, hipSetDevice)                                    \
  X(StreamCreateWithPriority, hipStreamCreateWithPriority)      \
  X(StreamDestroy, hipStreamDestroy)                            \
  X(StreamQuery, hipStreamQuery)                                \
  X(StreamWaitEvent, hipStreamWaitEvent)

// NULL if the runtime lacks the function.
#define KEEL_GPU_OPTIONAL_FUNCTIONS(X)         \
  X(IpcCloseMemHandle, hipIpcCloseMemHandle)   \
  X(IpcGetMemHandle, hipIpcGetMemHandle)       \
  X(IpcOpenMemHandle, hipIpcOpenMemHandle)     \
  X(MemGetAddressRange, hipMemGetAddressRange) \
  X(StreamGetCtx, hipStreamGetDevice)          \
  X(StreamIsCapturing, hipStreamIsCapturing)   \
  X(ThreadExchangeStreamCaptureMode, hipThreadExchangeStreamCaptureMode)

struct Functions {
#define KEEL_GPU_MEMBER(name, native) decltype(&::native) name = nullptr;
  KEEL_GPU_FUNCTIONS(KEEL_GPU_MEMBER)
  KEEL_GPU_OPTIONAL_FUNCTIONS(KEEL_GPU_MEMBER)
#undef KEEL_GPU_MEMBER
  // Always NULL: HIP does not report a kernel's parameters.
  Result (*FuncGetParamInfo)(NativeFunction, size_t, size_t*, size_t*) = nullptr;
};

struct Names {
#define KEEL_GPU_NAME(name, native) static constexpr const char* name = #native;
  KEEL_GPU_FUNCTIONS(KEEL_GPU_NAME)
  KEEL_GPU_OPTIONAL_FUNCTIONS(KEEL_GPU_NAME)
#undef KEEL_GPU_NAME
  static constexpr const char* FuncGetParamInfo = "";
  static constexpr const char* FuncSetAttribute = "hipFuncSetAttribute";
};

inline constexpr const char* kDriverFile = "";  // the newest soname in the folder
inline constexpr const char* kFolderVariable = "KEEL_HIP_LIBRARY_FOLDER";
inline constexpr const char* kCclFolderVariable = "KEEL_RCCL_LIBRARY_FOLDER";
inline constexpr std::string_view kCclFolderKey = "rccl_folder";
inline constexpr const char* kProductsFolderVariable = "KEEL_ROCBLAS_LIBRARY_FOLDER";
inline constexpr std::string_view kProductsFolderKey = "rocblas_folder";
// The oldest supported version; all functions that the plugin requires exist since then.
inline constexpr int kOldestDriver = 50200000;
inline constexpr keel_binary_format kBinaryFormat = KEEL_BINARY_HSACO;
inline constexpr const char* kBinaryFormatText = "KEEL_BINARY_HSACO";
// The LDS that a launch may use, without asking for more: there is no more.
inline constexpr uint32_t kUsualSharedBytes = 64 << 10;
inline constexpr auto kMultiprocessorCount = hipDeviceAttributeMultiprocessorCount;
inline constexpr auto kCaptureRelaxed = hipStreamCaptureModeRelaxed;
inline constexpr auto kCaptureNone = hipStreamCaptureStatusNone;
inline constexpr NativeContext kNoContext = -1;
inline constexpr const char* kPerThreadStreamText = "hipStreamPerThread";

const char* result_name(const Functions& hip, Result result);  // NULL: unknown
const char* result_text(const Functions& hip, Result result);

// The runtime opens a device on its first use, and keeps the device open.
inline Result retain_context(const Functions& /*hip*/, NativeDevice device,
                             NativeContext* out_context) {
  *out_context = device;
  return 0;
}
inline void release_context(const Functions& /*hip*/, NativeDevice /*device*/) {}
// Returns the device of |stream|; an older runtime cannot tell, and the caller's word holds.
Result context_of(const Functions& hip, NativeStream stream, NativeContext expected,
                  NativeContext* out_context);
// 0: the hipDevice_t.
keel_status native_handle(NativeContext context, NativeDevice device, uint32_t which,
                          void** out_handle);
// Runs |body| with the device |context| current, and restores the calling thread's device.
template <typename Body>
Result in_context(const Functions& hip, NativeContext context, Body&& body) {
  int before = kNoContext;
  if (hip.GetDevice(&before) == 0 && before == context) return body(hip);
  const Result selected = hip.SetDevice(context);
  if (selected != 0) return selected;
  const Result result = body(hip);
  if (before != kNoContext) (void)hip.SetDevice(before);
  return result;
}

// 0: architectures have names, not numbers. Loading a code object decides what a device can run.
inline int capability_of(const Functions& /*hip*/, NativeDevice /*device*/) {
  return 0;
}
inline bool kernels_are_for(int /*capability*/) {
  return true;
}
// Fills the architecture, the NUMA node, and the capabilities that only some devices have.
void describe_device(const Functions& hip, NativeDevice device, keel_device_info* out_info);
inline bool supports_ipc(const Functions& /*hip*/, NativeDevice /*device*/) {
  return true;
}
// The flag was 0 in ROCm 5, and is 1 since.
inline unsigned int lazy_peer_access(int driver_version) {
  return driver_version < 60000000 ? 0 : 1;
}

// Returns the defect of a module image of |size| bytes, or NULL: an image is an ELF file for an AMD
// GPU, or a bundle of these. The runtime receives no size and trusts the image's headers.
const char* image_defect(const void* data, uint64_t size);
inline Result load_image(const Functions& hip, const void* image, NativeModule* out_module,
                         std::string* /*out_log*/) {
  return hip.ModuleLoadDataEx(out_module, image);
}
// Loads the kernels of |image| on |device|, compiled now if the image has no code for its
// architecture and the user has asked for that.
Result load_family(const Functions& hip, NativeDevice device, int runtime_version,
                   const simt::Image& image, NativeModule* out_module, std::string* out_log);
// Returns hipErrorInvalidValue.
inline Result allow_shared_bytes(const Functions& /*hip*/, NativeFunction /*function*/,
                                 uint32_t /*bytes*/) {
  return 1;
}

}  // namespace keel::gpu

#endif  // KEEL_BACKENDS_HIP_GPU_TARGET_H_
