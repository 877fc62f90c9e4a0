// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/result.h"

#include "backends/cuda/capture.h"

namespace keel::cuda {

bool is_fatal(CUresult result) {
  // Error codes of headers newer than the oldest supported header.
  constexpr int kContained = 226;
  constexpr int kTensorMemoryLeak = 721;
  if (static_cast<int>(result) == kContained || static_cast<int>(result) == kTensorMemoryLeak) {
    return true;
  }
  switch (result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
    case CUDA_ERROR_EXTERNAL_DEVICE:
      return true;
    default:
      return false;
  }
}

keel_status status_of(CUresult result) {
  if (is_fatal(result)) return KEEL_DEVICE_LOST;
  if (is_of_capture(result)) return KEEL_FAILED_PRECONDITION;
  switch (result) {
    case CUDA_SUCCESS:
      return KEEL_OK;
    case CUDA_ERROR_NOT_READY:
      return KEEL_NOT_READY;
    case CUDA_ERROR_OUT_OF_MEMORY:
    case CUDA_ERROR_MPS_MAX_CLIENTS_REACHED:
    case CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED:
      return KEEL_OUT_OF_MEMORY;
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_INVALID_SOURCE:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND:
    case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
      return KEEL_INVALID_ARGUMENT;
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_NOT_FOUND:
    case CUDA_ERROR_NO_DEVICE:
      return KEEL_NOT_FOUND;
    case CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED:
      return KEEL_ALREADY_EXISTS;
    case CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED:
      return KEEL_FAILED_PRECONDITION;
    case CUDA_ERROR_NOT_PERMITTED:
      return KEEL_PERMISSION_DENIED;
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_PEER_ACCESS_UNSUPPORTED:
    case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
      return KEEL_UNSUPPORTED;
    case CUDA_ERROR_SYSTEM_NOT_READY:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_MPS_SERVER_NOT_READY:
    case CUDA_ERROR_TOO_MANY_PEERS:
      return KEEL_UNAVAILABLE;
    default:
      return KEEL_INTERNAL;
  }
}

}  // namespace keel::cuda
