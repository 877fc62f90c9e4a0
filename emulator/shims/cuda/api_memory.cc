// SPDX-License-Identifier: Apache-2.0
// Device and host memory.
#include <cuda.h>

#include "emulator/shims/cuda/capture.h"
#include "emulator/shims/cuda/driver.h"
#include "emulator/shims/cuda/results.h"

namespace keel::emulator::cuda {
namespace {

// Counts an allocation of host memory as a call on the current chip, with its faults.
CUresult allocate_host(const Here& here, HostMemory::Kind kind, size_t size, void** out_pointer) {
  Injection injection;
  const Status counted = here.chip->count_call(CallKind::kAlloc, &injection);
  if (!counted.ok()) return result_of(counted, *here.chip);
  return result_of(Driver::get().host_memory().allocate(kind, size, out_pointer));
}

// Like answer_here(), for calls that a capture may forbid.
template <typename Body>
CUresult answer_unsafe(Body&& body) noexcept {
  return answer_here([&](const Here& here) {
    const CUresult allowed = allow_unsafe_call();
    return allowed == CUDA_SUCCESS ? body(here) : allowed;
  });
}

}  // namespace
}  // namespace keel::emulator::cuda

using namespace keel::emulator::cuda;  // NOLINT: the functions below are C functions
using keel::emulator::Address;
using keel::emulator::HostMemory;

extern "C" {

CUresult CUDAAPI cuMemGetInfo(size_t* free, size_t* total) {
  return answer_here([&](const Here& here) {
    *free = here.chip->memory().free_bytes();
    *total = here.chip->memory().total_bytes();
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemAlloc(CUdeviceptr* dptr, size_t bytesize) {
  return answer_unsafe([&](const Here& here) {
    if (dptr == nullptr || bytesize == 0) return CUDA_ERROR_INVALID_VALUE;
    Address address = 0;
    const auto status = here.chip->allocate(bytesize, &address);
    if (status.ok()) *dptr = address;
    return result_of(status, *here.chip);
  });
}

CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr* dptr, size_t bytesize, unsigned int flags) {
  return answer_unsafe([&](const Here& here) {
    if (dptr == nullptr || flags != CU_MEM_ATTACH_GLOBAL) return CUDA_ERROR_INVALID_VALUE;
    void* pointer = nullptr;
    const CUresult result = allocate_host(here, HostMemory::Kind::kManaged, bytesize, &pointer);
    if (result == CUDA_SUCCESS) *dptr = reinterpret_cast<CUdeviceptr>(pointer);
    return result;
  });
}

CUresult CUDAAPI cuMemFree(CUdeviceptr dptr) {
  return answer_unsafe([&](const Here& here) {
    void* const pointer = reinterpret_cast<void*>(dptr);  // NOLINT: device or host address
    if (!here.chip->memory().is_device_address(pointer, 1)) {
      return result_of(Driver::get().host_memory().free(HostMemory::Kind::kManaged, pointer));
    }
    return result_of(here.chip->memory().free(dptr), *here.chip);
  });
}

CUresult CUDAAPI cuMemGetAddressRange(CUdeviceptr* pbase, size_t* psize, CUdeviceptr dptr) {
  return answer_here([&](const Here& here) {
    keel::emulator::Reach reach = {};
    std::shared_ptr<keel::emulator::Storage> keep;
    if (!here.chip->memory().resolve_block(dptr, &reach, &keep).ok()) return CUDA_ERROR_NOT_FOUND;
    if (pbase != nullptr) *pbase = reach.begin;
    if (psize != nullptr) *psize = reach.size;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemHostAlloc(void** pp, size_t bytesize, unsigned int Flags) {
  constexpr unsigned int kKnown =
      CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  return answer_unsafe([&](const Here& here) {
    if (pp == nullptr || (Flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
    return allocate_host(here, HostMemory::Kind::kPinned, bytesize, pp);
  });
}

CUresult CUDAAPI cuMemFreeHost(void* p) {
  return answer_unsafe([&](const Here&) {
    return result_of(Driver::get().host_memory().free(HostMemory::Kind::kPinned, p));
  });
}

CUresult CUDAAPI cuMemHostRegister(void* p, size_t bytesize, unsigned int Flags) {
  constexpr unsigned int kKnown = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
  return answer_unsafe([&](const Here&) {
    if ((Flags & ~kKnown) != 0) return CUDA_ERROR_NOT_SUPPORTED;
    return result_of(Driver::get().host_memory().add(p, bytesize));
  });
}

CUresult CUDAAPI cuMemHostUnregister(void* p) {
  return answer_unsafe([&](const Here&) {
    const HostMemory::Result removed = Driver::get().host_memory().remove(p);
    return removed == HostMemory::Result::kOk ? CUDA_SUCCESS
                                              : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  });
}

CUresult CUDAAPI cuMemHostGetDevicePointer(CUdeviceptr* pdptr, void* p, unsigned int Flags) {
  return answer_here([&](const Here&) {
    if (pdptr == nullptr || Flags != 0) return CUDA_ERROR_INVALID_VALUE;
    *pdptr = reinterpret_cast<CUdeviceptr>(p);
    return result_of(Driver::get().host_memory().find(p));
  });
}

}  // extern "C"
