// SPDX-License-Identifier: Apache-2.0
// The CUDA driver of one folder, opened at run time. The plugin does not link to the driver, so the
// plugin loads on machines without one. cuGetProcAddress looks up functions by the version of their
// interface, independent of the driver's version.
#ifndef KEEL_BACKENDS_CUDA_DRIVER_H_
#define KEEL_BACKENDS_CUDA_DRIVER_H_

#include <cudaTypedefs.h>
#include <keel/abi.h>

#include <keel/plugin_kit.hpp>
#include <mutex>
#include <set>
#include <string>

#include "backends/cuda/host_registrations.h"
#include "backends/cuda/nvml.h"

namespace keel::cuda {

#define KEEL_CUDA_FUNCTIONS(X)       \
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
#define KEEL_CUDA_OPTIONAL_FUNCTIONS(X) \
  X(FuncGetParamInfo, 12040)            \
  X(IpcCloseMemHandle, 4010)            \
  X(IpcGetMemHandle, 4010)              \
  X(IpcOpenMemHandle, 11000)            \
  X(MemGetAddressRange, 3020)           \
  X(StreamIsCapturing, 10000)           \
  X(ThreadExchangeStreamCaptureMode, 10010)

struct Functions {
#define KEEL_CUDA_MEMBER(name, version) PFN_cu##name##_v##version name = nullptr;
  KEEL_CUDA_FUNCTIONS(KEEL_CUDA_MEMBER)
  KEEL_CUDA_OPTIONAL_FUNCTIONS(KEEL_CUDA_MEMBER)
#undef KEEL_CUDA_MEMBER
};

// Initialised once per folder and file, for all instances, and never shut down: a driver leaves
// threads and exit handlers behind. Immutable except for registrations, NVML and the set of logged
// warnings; thread-safe.
class Driver {
 public:
  // The oldest supported version; all functions that the plugin requires exist since then.
  static constexpr int kOldest = 12000;

  // |folder| contains the driver |file|, as a rule libcuda.so.1; if empty, the dynamic loader
  // searches.
  static Driver& of(const std::string& folder, const std::string& file);

  int device_count() const { return device_count_; }
  // 12080 means CUDA 12.8.
  int version() const { return version_; }
  // Why there is no device.
  const std::string& reason() const { return reason_; }
  const Functions& functions() const { return functions_; }
  // "CUDA 13.0, /usr/lib/x86_64-linux-gnu/libcuda.so.1"
  const std::string& description() const { return description_; }
  HostRegistrations& registrations() { return registrations_; }
  // NVML from the same folder.
  Nvml& nvml() { return nvml_; }

  // Logs |text| once per process.
  void warn_once(const std::string& text);

  // "cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected"
  std::string text_of(const char* call, CUresult result) const;

 private:
  Driver(const std::string& folder, const std::string& file);
  // Returns false and sets the reason if a step fails.
  bool open(const std::string& folder, const std::string& file);
  bool start();

  kit::VendorLibrary library_;
  Functions functions_;
  HostRegistrations registrations_;
  Nvml nvml_;
  std::mutex mutex_;
  std::set<std::string> warnings_;
  int version_ = 0;
  int device_count_ = 0;
  std::string reason_;
  std::string description_;
};

}  // namespace keel::cuda

#endif  // KEEL_BACKENDS_CUDA_DRIVER_H_
