// SPDX-License-Identifier: Apache-2.0
// The table of functions by name, for cuGetProcAddress.
#include <cuda.h>

#include <cstring>

#include "emulator/shims/cuda/driver.h"

namespace {

struct Row {
  const char* name;
  int version;  // of the interface, as in cudaTypedefs.h
  void* function;
};

#define KEEL_ROW(name, version) \
  { "cu" #name, version, reinterpret_cast<void*>(&cu##name) }
const Row kRows[] = {
    KEEL_ROW(Init, 2000),
    KEEL_ROW(DriverGetVersion, 2020),
    KEEL_ROW(GetErrorName, 6000),
    KEEL_ROW(GetErrorString, 6000),
    KEEL_ROW(DeviceGetCount, 2000),
    KEEL_ROW(DeviceGet, 2000),
    KEEL_ROW(DeviceGetName, 2000),
    {"cuDeviceGetUuid", 11040, reinterpret_cast<void*>(&cuDeviceGetUuid_v2)},
    KEEL_ROW(DeviceTotalMem, 3020),
    KEEL_ROW(DeviceGetAttribute, 2000),
    KEEL_ROW(DeviceGetPCIBusId, 4010),
    KEEL_ROW(DeviceCanAccessPeer, 4000),
    KEEL_ROW(DevicePrimaryCtxRetain, 7000),
    KEEL_ROW(DevicePrimaryCtxRelease, 11000),
    KEEL_ROW(CtxPushCurrent, 4000),
    KEEL_ROW(CtxPopCurrent, 4000),
    KEEL_ROW(CtxGetCurrent, 4000),
    KEEL_ROW(CtxGetStreamPriorityRange, 5050),
    KEEL_ROW(CtxEnablePeerAccess, 4000),
    KEEL_ROW(MemGetInfo, 3020),
    KEEL_ROW(MemAlloc, 3020),
    KEEL_ROW(MemAllocManaged, 6000),
    KEEL_ROW(MemFree, 3020),
    KEEL_ROW(MemGetAddressRange, 3020),
    KEEL_ROW(IpcGetMemHandle, 4010),
    KEEL_ROW(IpcOpenMemHandle, 11000),
    KEEL_ROW(IpcCloseMemHandle, 4010),
    KEEL_ROW(MemHostAlloc, 2020),
    KEEL_ROW(MemFreeHost, 2000),
    KEEL_ROW(MemHostRegister, 6050),
    KEEL_ROW(MemHostUnregister, 4000),
    KEEL_ROW(MemHostGetDevicePointer, 3020),
    KEEL_ROW(StreamCreateWithPriority, 5050),
    KEEL_ROW(StreamDestroy, 4000),
    KEEL_ROW(StreamGetCtx, 9020),
    KEEL_ROW(StreamQuery, 2000),
    KEEL_ROW(StreamWaitEvent, 3020),
    {"cuStreamBeginCapture", 10010, reinterpret_cast<void*>(&cuStreamBeginCapture_v2)},
    KEEL_ROW(StreamEndCapture, 10000),
    KEEL_ROW(StreamIsCapturing, 10000),
    KEEL_ROW(ThreadExchangeStreamCaptureMode, 10010),
    KEEL_ROW(MemcpyHtoDAsync, 3020),
    KEEL_ROW(MemcpyDtoHAsync, 3020),
    KEEL_ROW(MemcpyDtoDAsync, 3020),
    KEEL_ROW(MemcpyPeerAsync, 4000),
    KEEL_ROW(MemsetD8Async, 3020),
    KEEL_ROW(MemsetD16Async, 3020),
    KEEL_ROW(MemsetD32Async, 3020),
    KEEL_ROW(EventCreate, 2000),
    KEEL_ROW(EventDestroy, 4000),
    KEEL_ROW(EventRecord, 2000),
    KEEL_ROW(EventQuery, 2000),
    KEEL_ROW(EventElapsedTime, 2000),
    KEEL_ROW(ModuleLoadDataEx, 2010),
    KEEL_ROW(ModuleUnload, 2000),
    KEEL_ROW(ModuleGetFunction, 2000),
    KEEL_ROW(FuncGetParamInfo, 12040),
    KEEL_ROW(FuncSetAttribute, 9000),
    KEEL_ROW(LaunchKernel, 4000),
};
#undef KEEL_ROW

}  // namespace

extern "C" CUresult CUDAAPI cuGetProcAddress(const char* symbol, void** pfn, int cudaVersion,
                                             cuuint64_t flags,
                                             CUdriverProcAddressQueryResult* symbolStatus) {
  const auto& settings = keel::emulator::cuda::Driver::get().settings();
  if (symbol == nullptr || pfn == nullptr ||
      (flags & ~cuuint64_t{CU_GET_PROC_ADDRESS_LEGACY_STREAM}) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  *pfn = nullptr;
  for (const Row& row : kRows) {
    if (std::strcmp(row.name, symbol) != 0 || settings.missing.count(symbol) != 0) continue;
    if (row.version > cudaVersion || row.version > settings.version) {
      status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    } else {
      status = CU_GET_PROC_ADDRESS_SUCCESS;
      *pfn = row.function;
    }
    break;
  }
  if (symbolStatus != nullptr) *symbolStatus = status;
  return *pfn == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}
