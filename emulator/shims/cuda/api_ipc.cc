// SPDX-License-Identifier: Apache-2.0
// IPC handles for memory of other processes.
#include <cuda.h>
#include <unistd.h>

#include <cstring>

#include "emulator/shims/cuda/capture.h"
#include "emulator/shims/cuda/driver.h"
#include "emulator/shims/cuda/results.h"

namespace keel::emulator::cuda {
namespace {

// The contents of a handle. A library of another build has another size or magic.
struct IpcHandle {
  uint64_t magic = 0x6b65656c69706301;
  SharedFileHandle place = {};
};
static_assert(sizeof(IpcHandle) <= sizeof(CUipcMemHandle));

CUresult open_handle(const Here& here, const IpcHandle& handle, CUdeviceptr* out_address) {
  if (handle.magic != IpcHandle().magic) return CUDA_ERROR_INVALID_VALUE;
  // Like the driver, refuses a handle of the same process, which has the pointer itself.
  if (handle.place.process == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
  Address address = 0;
  const Status status = here.chip->memory().import(handle.place, &address);
  if (status.code() == Code::kUnavailable) return CUDA_ERROR_MAP_FAILED;
  if (status.ok()) *out_address = address;
  return result_of(status, *here.chip);
}

}  // namespace
}  // namespace keel::emulator::cuda

using namespace keel::emulator::cuda;  // NOLINT: the functions below are C functions

extern "C" {

CUresult CUDAAPI cuIpcGetMemHandle(CUipcMemHandle* pHandle, CUdeviceptr dptr) {
  return answer_here([&](const Here& here) {
    if (pHandle == nullptr) return CUDA_ERROR_INVALID_VALUE;
    IpcHandle handle;
    const auto status = here.chip->memory().share(dptr, &handle.place);
    if (status.ok()) {
      *pHandle = {};
      std::memcpy(pHandle->reserved, &handle, sizeof(handle));
    }
    return result_of(status, *here.chip);
  });
}

CUresult CUDAAPI cuIpcOpenMemHandle(CUdeviceptr* pdptr, CUipcMemHandle handle, unsigned int Flags) {
  return answer_here([&](const Here& here) {
    if (pdptr == nullptr || Flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const CUresult allowed = allow_unsafe_call();
    if (allowed != CUDA_SUCCESS) return allowed;
    IpcHandle inside;
    std::memcpy(&inside, handle.reserved, sizeof(inside));
    return open_handle(here, inside, pdptr);
  });
}

CUresult CUDAAPI cuIpcCloseMemHandle(CUdeviceptr dptr) {
  return answer_here([&](const Here& here) {
    const CUresult allowed = allow_unsafe_call();
    if (allowed != CUDA_SUCCESS) return allowed;
    return result_of(here.chip->memory().close_import(dptr), *here.chip);
  });
}

}  // extern "C"
