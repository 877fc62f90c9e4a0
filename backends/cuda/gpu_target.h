// SPDX-License-Identifier: Apache-2.0
// CUDA's driver, as the layer of backends/gpu sees it: types, functions, and what differs from HIP.
#ifndef KEEL_BACKENDS_CUDA_GPU_TARGET_H_
#define KEEL_BACKENDS_CUDA_GPU_TARGET_H_

#include <cuda.h>
#include <cudaTypedefs.h>
#include <keel/abi.h>

#include <string>
#include <string_view>

#include "kernels/gpu/image.h"

// The plugin's name, which begins the texts of its failures.
#define KEEL_GPU "cuda"
// The collectives library.
#define KEEL_GPU_CCL "nccl"
#define KEEL_GPU_CCL_UPPER "NCCL"
#define KEEL_GPU_CCL_FILE "libnccl.so.2"
// The library of matrix products, before names of kernels.
#define KEEL_GPU_PRODUCTS "cublaslt"

namespace keel::gpu {

using Result = CUresult;
using DeviceAddress = CUdeviceptr;
using NativeDevice = CUdevice;
using NativeContext = CUcontext;  // also names a device to its peers
using NativeStream = CUstream;
using NativeEvent = CUevent;
using NativeModule = CUmodule;
using NativeFunction = CUfunction;
using NativeUuid = CUuuid;
using IpcHandle = CUipcMemHandle;
using CaptureMode = CUstreamCaptureMode;
using CaptureStatus = CUstreamCaptureStatus;
using DeviceAttribute = CUdevice_attribute;

#define KEEL_GPU_FUNCTIONS(X)        \
  X(CtxEnablePeerAccess, 4000)       \
  X(CtxGetCurrent, 4000)             \
  X(CtxGetStreamPriorityRange, 5050) \
  X(CtxPopCurrent, 4000)             \
  X(CtxPushCurrent, 4000)            \
  X(DeviceCanAccessPeer, 4000)       \
  X(DeviceGet, 2000)                 \
  X(DeviceGetAttribute, 2000)        \
  X(DeviceGetCount, 2000)            \
  X(DeviceGetName, 2000)             \
  X(DeviceGetPCIBusId, 4010)         \
  X(DeviceGetUuid, 11040)            \
  X(DevicePrimaryCtxRelease, 11000)  \
  X(DevicePrimaryCtxRetain, 7000)    \
  X(DeviceTotalMem, 3020)            \
  X(EventCreate, 2000)               \
  X(EventDestroy, 4000)              \
  X(EventElapsedTime, 2000)          \
  X(EventQuery, 2000)                \
  X(EventRecord, 2000)               \
  X(FuncSetAttribute, 9000)          \
  X(GetErrorName, 6000)              \
  X(GetErrorString, 6000)            \
  X(Init, 2000)                      \
  X(LaunchKernel, 4000)              \
  X(MemAlloc, 3020)                  \
  X(MemAllocManaged, 6000)           \
  X(MemFree, 3020)                   \
  X(MemFreeHost, 2000)               \
  X(MemGetInfo, 3020)                \
  X(MemHostAlloc, 2020)              \
  X(MemHostGetDevicePointer, 3020)   \
  X(MemHostRegister, 6050)           \
  X(MemHostUnregister, 4000)         \
  X(MemcpyDtoDAsync, 3020)           \
  X(MemcpyDtoHAsync, 3020)           \
  X(MemcpyHtoDAsync, 3020)           \
  X(MemcpyPeerAsync, 4000)           \
  X(MemsetD16Async, 3020)            \
  X(MemsetD32Async, 3020)            \
  X(MemsetD8Async, 3020)             \
  X(ModuleGetFunction, 2000)         \
  X(ModuleLoadDataEx, 2010)          \
  X(ModuleUnload, 2000)              \
  X(StreamCreateWithPriority, 5050)  \
  X(StreamDestroy, 4000)             \
  X(StreamGetCtx, 9020)              \
  X(StreamQuery, 2000)               \
  X(StreamWaitEvent, 3020)

// NULL if the driver lacks the function.
#define KEEL_GPU_OPTIONAL_FUNCTIONS(X) \
  X(FuncGetParamInfo, 12040)           \
  X(IpcCloseMemHandle, 4010)           \
  X(IpcGetMemHandle, 4010)             \
  X(IpcOpenMemHandle, 11000)           \
  X(MemGetAddressRange, 3020)          \
  X(StreamIsCapturing, 10000)          \
  X(ThreadExchangeStreamCaptureMode, 10010)

struct Functions {
#define KEEL_GPU_MEMBER(name, version) PFN_cu##name##_v##version name = nullptr;
  KEEL_GPU_FUNCTIONS(KEEL_GPU_MEMBER)
  KEEL_GPU_OPTIONAL_FUNCTIONS(KEEL_GPU_MEMBER)
#undef KEEL_GPU_MEMBER
};

struct Names {
#define KEEL_GPU_NAME(name, version) static constexpr const char* name = "cu" #name;
  KEEL_GPU_FUNCTIONS(KEEL_GPU_NAME)
  KEEL_GPU_OPTIONAL_FUNCTIONS(KEEL_GPU_NAME)
#undef KEEL_GPU_NAME
};

inline constexpr const char* kDriverFile = "libcuda.so.1";
inline constexpr const char* kFolderVariable = "KEEL_CUDA_LIBRARY_FOLDER";
inline constexpr const char* kCclFolderVariable = "KEEL_NCCL_LIBRARY_FOLDER";
inline constexpr std::string_view kCclFolderKey = "nccl_folder";
inline constexpr const char* kProductsFolderVariable = "KEEL_CUBLASLT_LIBRARY_FOLDER";
inline constexpr std::string_view kProductsFolderKey = "cublaslt_folder";
// The oldest supported version; all functions that the plugin requires exist since then.
inline constexpr int kOldestDriver = 12000;
inline constexpr keel_binary_format kBinaryFormat = KEEL_BINARY_CUBIN;
inline constexpr const char* kBinaryFormatText = "KEEL_BINARY_CUBIN";
// Launches with more dynamic shared memory need an attribute set beforehand.
inline constexpr uint32_t kUsualSharedBytes = 48 << 10;
inline constexpr auto kMultiprocessorCount = CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
inline constexpr auto kCaptureRelaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
inline constexpr auto kCaptureNone = CU_STREAM_CAPTURE_STATUS_NONE;
inline constexpr NativeContext kNoContext = nullptr;
inline constexpr const char* kPerThreadStreamText = "CU_STREAM_PER_THREAD";

const char* result_name(const Functions& cu, Result result);  // NULL: unknown
const char* result_text(const Functions& cu, Result result);

// Opens and closes the use of a device, whose primary context the process's framework shares.
Result retain_context(const Functions& cu, NativeDevice device, NativeContext* out_context);
void release_context(const Functions& cu, NativeDevice device);
// Returns the context of |stream|, which the caller takes for one of |expected|.
Result context_of(const Functions& cu, NativeStream stream, NativeContext expected,
                  NativeContext* out_context);
// 0: the CUcontext; 1: the CUdevice.
keel_status native_handle(NativeContext context, NativeDevice device, uint32_t which,
                          void** out_handle);
// Runs |body| in |context|, and restores the calling thread's previous context.
template <typename Body>
Result in_context(const Functions& cu, NativeContext context, Body&& body) {
  CUcontext before = nullptr;
  if (cu.CtxGetCurrent(&before) == CUDA_SUCCESS && before == context) return body(cu);
  Result result = cu.CtxPushCurrent(context);
  if (result != CUDA_SUCCESS) return result;
  result = body(cu);
  cu.CtxPopCurrent(&before);
  return result;
}

// 90 for a device of compute capability 9.0; 0 if the driver does not report the capability.
int capability_of(const Functions& cu, NativeDevice device);
// Whether devices of compute capability |capability| can run the operators' kernels. 0: unknown,
// and loading decides.
bool kernels_are_for(int capability);
// Fills the architecture, the NUMA node, and the capabilities that only some devices have.
void describe_device(const Functions& cu, NativeDevice device, keel_device_info* out_info);
// Whether the driver can pass the memory of |device| to other processes.
bool supports_ipc(const Functions& cu, NativeDevice device);
unsigned int lazy_peer_access(int driver_version);

// Returns the defect of a module image of |size| bytes, or NULL.
const char* image_defect(const void* data, uint64_t size);
// Writes the reason of a failure to |*out_log|, if the driver gives one.
Result load_image(const Functions& cu, const void* image, NativeModule* out_module,
                  std::string* out_log);
// Loads the kernels of |image| on |device|.
inline Result load_family(const Functions& cu, NativeDevice /*device*/, int /*driver_version*/,
                          const simt::Image& image, NativeModule* out_module,
                          std::string* out_log) {
  return load_image(cu, image.bytes.data(), out_module, out_log);
}
Result allow_shared_bytes(const Functions& cu, NativeFunction function, uint32_t bytes);

}  // namespace keel::gpu

#endif  // KEEL_BACKENDS_CUDA_GPU_TARGET_H_
