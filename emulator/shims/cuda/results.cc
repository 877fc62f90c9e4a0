// SPDX-License-Identifier: Apache-2.0
#include "emulator/shims/cuda/results.h"

namespace keel::emulator::cuda {
namespace {

struct Row {
  CUresult result;
  const char* name;
  const char* text;
};

#define KEEL_RESULT(name, text) \
  { CUDA_##name, "CUDA_" #name, text }
constexpr Row kRows[] = {
    KEEL_RESULT(SUCCESS, "no error"),
    KEEL_RESULT(ERROR_INVALID_VALUE, "invalid argument"),
    KEEL_RESULT(ERROR_OUT_OF_MEMORY, "out of memory"),
    KEEL_RESULT(ERROR_NOT_INITIALIZED, "initialization error"),
    KEEL_RESULT(ERROR_NO_DEVICE, "no CUDA-capable device is there"),
    KEEL_RESULT(ERROR_INVALID_DEVICE, "invalid device ordinal"),
    KEEL_RESULT(ERROR_INVALID_IMAGE, "the image of the module is invalid"),
    KEEL_RESULT(ERROR_INVALID_CONTEXT, "invalid device context"),
    KEEL_RESULT(ERROR_MAP_FAILED, "the memory cannot be mapped"),
    KEEL_RESULT(ERROR_NO_BINARY_FOR_GPU, "no image in the module is for this device"),
    KEEL_RESULT(ERROR_UNSUPPORTED_PTX_VERSION, "the PTX is of a later toolchain"),
    KEEL_RESULT(ERROR_ECC_UNCORRECTABLE, "uncorrectable ECC error"),
    KEEL_RESULT(ERROR_INVALID_HANDLE, "invalid resource handle"),
    KEEL_RESULT(ERROR_NOT_FOUND, "named symbol not found"),
    KEEL_RESULT(ERROR_NOT_READY, "device not ready"),
    KEEL_RESULT(ERROR_ILLEGAL_ADDRESS, "an access to memory that is not there"),
    KEEL_RESULT(ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is enabled already"),
    KEEL_RESULT(ERROR_CONTEXT_IS_DESTROYED, "the context was destroyed"),
    KEEL_RESULT(ERROR_HOST_MEMORY_ALREADY_REGISTERED, "the memory is registered already"),
    KEEL_RESULT(ERROR_HOST_MEMORY_NOT_REGISTERED, "the memory is not registered"),
    KEEL_RESULT(ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    KEEL_RESULT(ERROR_NOT_SUPPORTED, "operation not supported"),
    KEEL_RESULT(ERROR_SYSTEM_NOT_READY, "the system is not ready"),
    KEEL_RESULT(ERROR_EXTERNAL_DEVICE, "an error of another device"),
    KEEL_RESULT(ERROR_STREAM_CAPTURE_UNSUPPORTED,
                "operation not permitted while a stream is captured"),
    KEEL_RESULT(ERROR_STREAM_CAPTURE_INVALIDATED, "an earlier call has broken the capture"),
    KEEL_RESULT(ERROR_STREAM_CAPTURE_UNMATCHED, "the stream is in no capture"),
    KEEL_RESULT(ERROR_CAPTURED_EVENT, "the event was last recorded in a capture"),
    KEEL_RESULT(ERROR_STREAM_CAPTURE_WRONG_THREAD, "another thread has begun the capture"),
    KEEL_RESULT(ERROR_UNKNOWN, "unknown error"),
};
#undef KEEL_RESULT

const Row* find(CUresult result) {
  for (const Row& row : kRows) {
    if (row.result == result) return &row;
  }
  return nullptr;
}

}  // namespace

const char* result_name(CUresult result) {
  const Row* const row = find(result);
  return row == nullptr ? nullptr : row->name;
}

const char* result_text(CUresult result) {
  const Row* const row = find(result);
  return row == nullptr ? nullptr : row->text;
}

CUresult loss_of(const Device& chip) {
  switch (chip.loss_cause()) {
    case Code::kIllegalAddress:
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    case Code::kUnavailable:
      return CUDA_ERROR_EXTERNAL_DEVICE;
    case Code::kDeviceLost:
      return CUDA_ERROR_ECC_UNCORRECTABLE;
    default:
      return CUDA_ERROR_LAUNCH_FAILED;
  }
}

CUresult result_of(const Status& status, const Device& chip) {
  switch (status.code()) {
    case Code::kOk:
      return CUDA_SUCCESS;
    case Code::kInvalidArgument:
    case Code::kIllegalAddress:
      return CUDA_ERROR_INVALID_VALUE;
    case Code::kOutOfMemory:
      return CUDA_ERROR_OUT_OF_MEMORY;
    case Code::kNotReady:
      return CUDA_ERROR_NOT_READY;
    case Code::kUnavailable:
      return CUDA_ERROR_SYSTEM_NOT_READY;
    case Code::kUnsupported:
      return CUDA_ERROR_NOT_SUPPORTED;
    case Code::kDeviceLost:
      return loss_of(chip);
    default:
      return CUDA_ERROR_UNKNOWN;
  }
}

CUresult result_of(HostMemory::Result result) {
  switch (result) {
    case HostMemory::Result::kOk:
      return CUDA_SUCCESS;
    case HostMemory::Result::kOutOfMemory:
      return CUDA_ERROR_OUT_OF_MEMORY;
    case HostMemory::Result::kOverlaps:
      return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace keel::emulator::cuda
