// SPDX-License-Identifier: Apache-2.0
// Devices and contexts.
#include <cuda.h>
#include <fmt/format.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "emulator/shims/cuda/driver.h"
#include "emulator/shims/cuda/results.h"

namespace keel::emulator::cuda {
namespace {

// Runs |body| with the context of |device|, whether retained or not.
template <typename Body>
CUresult with_device(CUdevice device, Body&& body) noexcept {
  return answer([&] {
    Context* const context = Driver::get().context(device);
    return context == nullptr ? CUDA_ERROR_INVALID_DEVICE : body(*context);
  });
}

struct Attribute {
  CUdevice_attribute attribute;
  int value;
};
// Compute capability 0.0: no compiler targets it.
const Attribute kAttributes[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 48 << 10},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 227 << 10},
    {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 1},
    {CU_DEVICE_ATTRIBUTE_INTEGRATED, 0},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 0},
    {CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, kVendor.pci_domain},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2},
    // Two chips use equal addresses.
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 0},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, -1},
    {CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 1},
};

}  // namespace
}  // namespace keel::emulator::cuda

using namespace keel::emulator::cuda;  // NOLINT: the functions below are C functions

extern "C" {

CUresult CUDAAPI cuDriverGetVersion(int* driverVersion) {
  if (driverVersion == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *driverVersion = Driver::get().settings().version;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuInit(unsigned int Flags) {
  return Flags == 0 ? Driver::get().init() : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuGetErrorName(CUresult error, const char** pStr) {
  *pStr = result_name(error);
  return *pStr == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult CUDAAPI cuGetErrorString(CUresult error, const char** pStr) {
  *pStr = result_text(error);
  return *pStr == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetCount(int* count) {
  return answer([&] {
    *count = static_cast<int>(Driver::get().device_count());
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceGet(CUdevice* device, int ordinal) {
  return with_device(ordinal, [&](Context&) {
    *device = ordinal;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceGetName(char* name, int len, CUdevice dev) {
  return with_device(dev, [&](Context&) {
    const auto& profile = Driver::get().settings().chips.device.profile;
    const std::string text =
        "Emulated GPU" + (profile ? fmt::format(" ({})", profile->name) : std::string());
    if (len <= 0) return CUDA_ERROR_INVALID_VALUE;
    std::snprintf(name, static_cast<size_t>(len), "%s", text.c_str());
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice dev) {
  return with_device(dev, [&](Context&) {
    static_assert(sizeof(uuid->bytes) == 16);
    std::memcpy(uuid->bytes, "keel emulated  ", 15);
    uuid->bytes[14] = kVendor.name[0];
    uuid->bytes[15] = static_cast<char>(dev);
    const auto& given = Driver::get().settings().chips.uuid;
    if (given && dev == 0) std::memcpy(uuid->bytes, given->data(), given->size());
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceTotalMem(size_t* bytes, CUdevice dev) {
  return with_device(dev, [&](Context&) {
    *bytes = Driver::get().settings().chips.device.memory_bytes;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceGetAttribute(int* pi, CUdevice_attribute attrib, CUdevice dev) {
  return with_device(dev, [&](Context&) {
    for (const Attribute& each : kAttributes) {
      if (each.attribute != attrib) continue;
      *pi = each.value;
      return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult CUDAAPI cuDeviceGetPCIBusId(char* pciBusId, int len, CUdevice dev) {
  return with_device(dev, [&](Context&) {
    const std::string text = pci_address(static_cast<uint32_t>(dev));
    if (len <= static_cast<int>(text.size())) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(pciBusId, text.c_str(), text.size() + 1);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceCanAccessPeer(int* canAccessPeer, CUdevice dev, CUdevice peerDev) {
  return with_device(dev, [&](Context&) {
    if (Driver::get().context(peerDev) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    *canAccessPeer = dev != peerDev ? 1 : 0;
    return CUDA_SUCCESS;
  });
}

// ---- contexts ----------------------------------------------------------------

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext* pctx, CUdevice dev) {
  return with_device(dev, [&](Context& context) {
    const CUresult result = context.retain();
    if (result == CUDA_SUCCESS) *pctx = context.handle();
    return result;
  });
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice dev) {
  return with_device(dev, [&](Context& context) { return context.release(); });
}

CUresult CUDAAPI cuCtxPushCurrent(CUcontext ctx) {
  return answer([&] {
    if (ctx == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    push_context(Context::of(ctx));
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxPopCurrent(CUcontext* pctx) {
  return answer([&] {
    Context* const context = pop_context();
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (pctx != nullptr) *pctx = context->handle();
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxGetCurrent(CUcontext* pctx) {
  return answer([&] {
    Context* const context = current_context();
    *pctx = context == nullptr ? nullptr : context->handle();
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxGetStreamPriorityRange(int* leastPriority, int* greatestPriority) {
  return answer_here([&](const Here&) {
    if (leastPriority != nullptr) *leastPriority = 0;
    if (greatestPriority != nullptr) *greatestPriority = -5;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags) {
  return answer_here([&](const Here& here) {
    if (peerContext == nullptr || Flags != 0) return CUDA_ERROR_INVALID_VALUE;
    return here.context->enable_peer(*Context::of(peerContext));
  });
}

}  // extern "C"
