// SPDX-License-Identifier: Apache-2.0
// Streams, copies, fills, events and captures.
#include <cuda.h>

#include "emulator/shims/cuda/context.h"
#include "emulator/shims/hip/current_device.h"

using namespace keel::emulator::hip;  // NOLINT: the functions below are C functions

extern "C" {

hipError_t hipStreamCreateWithPriority(hipStream_t* stream, unsigned int flags, int priority) {
  return on_device([&] {
    return cuStreamCreateWithPriority(reinterpret_cast<CUstream*>(stream), flags, priority);
  });
}

hipError_t hipStreamDestroy(hipStream_t stream) {
  return on_device([&] { return cuStreamDestroy(native(stream)); });
}

hipError_t hipStreamQuery(hipStream_t stream) {
  return on_device([&] { return cuStreamQuery(native(stream)); });
}

// ROCm 5.2 has no such function; later releases do.
hipError_t hipStreamGetDevice(hipStream_t stream, hipDevice_t* device) {
  return on_device([&] {
    CUcontext context = nullptr;
    const CUresult result = cuStreamGetCtx(native(stream), &context);
    if (result != CUDA_SUCCESS) return result;
    *device = static_cast<int>(keel::emulator::cuda::Context::of(context)->ordinal());
    return CUDA_SUCCESS;
  });
}

hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned int flags) {
  return on_device([&] { return cuStreamWaitEvent(native(stream), native(event), flags); });
}

hipError_t hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus* status) {
  return on_device([&] {
    CUstreamCaptureStatus native_status = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUresult result = cuStreamIsCapturing(native(stream), &native_status);
    *status = static_cast<hipStreamCaptureStatus>(native_status);
    return result;
  });
}

hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode* mode) {
  const CUresult ready = initialize();
  if (ready != CUDA_SUCCESS) return result_of(ready);
  auto native_mode = static_cast<CUstreamCaptureMode>(*mode);
  const CUresult result = cuThreadExchangeStreamCaptureMode(&native_mode);
  *mode = static_cast<hipStreamCaptureMode>(native_mode);
  return result_of(result);
}

hipError_t hipEventCreateWithFlags(hipEvent_t* event, unsigned int flags) {
  return on_device([&] { return cuEventCreate(reinterpret_cast<CUevent*>(event), flags); });
}

hipError_t hipEventDestroy(hipEvent_t event) {
  return on_device([&] { return cuEventDestroy(native(event)); });
}

hipError_t hipEventElapsedTime(float* milliseconds, hipEvent_t start, hipEvent_t end) {
  return on_device([&] { return cuEventElapsedTime(milliseconds, native(start), native(end)); });
}

hipError_t hipEventQuery(hipEvent_t event) {
  return on_device([&] { return cuEventQuery(native(event)); });
}

hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) {
  return on_device([&] { return cuEventRecord(native(event), native(stream)); });
}

hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t to, const void* from, size_t size,
                              hipStream_t stream) {
  return on_device([&] { return cuMemcpyHtoDAsync(to, from, size, native(stream)); });
}

hipError_t hipMemcpyDtoHAsync(void* to, hipDeviceptr_t from, size_t size, hipStream_t stream) {
  return on_device([&] { return cuMemcpyDtoHAsync(to, from, size, native(stream)); });
}

hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t to, hipDeviceptr_t from, size_t size,
                              hipStream_t stream) {
  return on_device([&] { return cuMemcpyDtoDAsync(to, from, size, native(stream)); });
}

hipError_t hipMemcpyPeerAsync(hipDeviceptr_t to, int to_device, hipDeviceptr_t from,
                              int from_device, size_t size, hipStream_t stream) {
  return on_device([&] {
    CUcontext to_context = nullptr;
    CUcontext from_context = nullptr;
    CUresult result = open_device(to_device, &to_context);
    if (result == CUDA_SUCCESS) result = open_device(from_device, &from_context);
    if (result != CUDA_SUCCESS) return result;
    return cuMemcpyPeerAsync(to, to_context, from, from_context, size, native(stream));
  });
}

hipError_t hipMemsetD8Async(hipDeviceptr_t to, unsigned char value, size_t count,
                            hipStream_t stream) {
  return on_device([&] { return cuMemsetD8Async(to, value, count, native(stream)); });
}

hipError_t hipMemsetD16Async(hipDeviceptr_t to, unsigned short value,  // NOLINT: as HIP's
                             size_t count, hipStream_t stream) {
  return on_device([&] { return cuMemsetD16Async(to, value, count, native(stream)); });
}

hipError_t hipMemsetD32Async(hipDeviceptr_t to, unsigned int value, size_t count,
                             hipStream_t stream) {
  return on_device([&] { return cuMemsetD32Async(to, value, count, native(stream)); });
}

}  // extern "C"
