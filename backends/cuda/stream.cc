// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/stream.h"

#include <algorithm>
#include <cstring>
#include <keel/plugin_kit.hpp>

namespace keel::cuda {
namespace {

CUdeviceptr address(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

template <typename Value>
Value read(const void* pattern) {
  Value value;
  std::memcpy(&value, pattern, sizeof(value));
  return value;
}

}  // namespace

keel_status Stream::create(Device& device, int32_t priority, std::unique_ptr<Stream>* out_stream) {
  std::unique_ptr<Stream> stream(new Stream(device));
  const keel_status status = device.call("cuStreamCreateWithPriority", [&](const Functions& cu) {
    return cu.StreamCreateWithPriority(&stream->native_, CU_STREAM_NON_BLOCKING,
                                       device.native_priority(priority));
  });
  if (status == KEEL_OK) *out_stream = std::move(stream);
  return status;
}

keel_status Stream::wrap(Device& device, CUstream native, std::unique_ptr<Stream>* out_stream) {
  if (native == CU_STREAM_PER_THREAD) {
    return kit::fail(KEEL_INVALID_ARGUMENT,
                     "cuda: CU_STREAM_PER_THREAD is another stream in each thread");
  }
  CUcontext context = nullptr;
  const keel_status status = device.call(
      "cuStreamGetCtx", [&](const Functions& cu) { return cu.StreamGetCtx(native, &context); });
  if (status != KEEL_OK) return status;
  if (context != device.context()) {
    return kit::fail(KEEL_INVALID_ARGUMENT,
                     "cuda: the stream is not one of the device's primary context");
  }
  std::unique_ptr<Stream> stream(new Stream(device, /*is_owned=*/false));
  stream->share();
  stream->native_ = native;
  *out_stream = std::move(stream);
  return KEEL_OK;
}

Stream::~Stream() {
  if (!is_owned_ || native_ == nullptr) return;
  (void)device_.release("cuStreamDestroy",
                        [&](const Functions& cu) { return cu.StreamDestroy(native_); });
}

keel_status Stream::query() {
  // A query would break the capture, and no work runs before the capture has ended.
  if (is_shared() && is_capturing()) return KEEL_NOT_READY;
  return device_.call("cuStreamQuery", [&](const Functions& cu) {
    const CUresult result = cu.StreamQuery(native_);
    return is_of_capture(result) ? CUDA_ERROR_NOT_READY : result;
  });
}

bool Stream::is_capturing() const {
  const Functions& cu = device_.functions();
  if (cu.StreamIsCapturing == nullptr) return false;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult asked = device_.ask(
      [&](const Functions& functions) { return functions.StreamIsCapturing(native_, &status); });
  // Stream 0 itself cannot be queried while a stream that synchronises with it is captured.
  return is_of_capture(asked) || (asked == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE);
}

keel_status Stream::refuse_capturing(const char* name) const {
  return kit::fail(KEEL_FAILED_PRECONDITION,
                   "cuda: %s: the stream %p is being captured into a graph, which Keel's work "
                   "cannot be part of",
                   name, static_cast<void*>(native_));
}

keel_status Stream::copy(keel_copy_kind kind, void* destination, const void* source,
                         uint64_t size) {
  switch (kind) {
    case KEEL_COPY_HOST_TO_DEVICE:
      return call("cuMemcpyHtoDAsync", [&](const Functions& cu) {
        return cu.MemcpyHtoDAsync(address(destination), source, size, native_);
      });
    case KEEL_COPY_DEVICE_TO_HOST:
      return call("cuMemcpyDtoHAsync", [&](const Functions& cu) {
        return cu.MemcpyDtoHAsync(destination, address(source), size, native_);
      });
    case KEEL_COPY_DEVICE_TO_DEVICE:
      return call("cuMemcpyDtoDAsync", [&](const Functions& cu) {
        return cu.MemcpyDtoDAsync(address(destination), address(source), size, native_);
      });
    default:
      return kit::fail(KEEL_INVALID_ARGUMENT, "cuda: no copy of kind %u", kind);
  }
}

// Peer access need not be enabled: without peer access the driver copies through the host.
keel_status Stream::copy_peer(Device& destination_device, void* destination, Device& source_device,
                              const void* source, uint64_t size) {
  destination_device.connect(source_device);
  return call("cuMemcpyPeerAsync", [&](const Functions& cu) {
    return cu.MemcpyPeerAsync(address(destination), destination_device.context(), address(source),
                              source_device.context(), size, native_);
  });
}

keel_status Stream::fill(void* destination, const void* pattern, uint32_t pattern_size,
                         uint64_t size) {
  const CUdeviceptr to = address(destination);
  switch (pattern_size) {
    case 1:
      return call("cuMemsetD8Async", [&](const Functions& cu) {
        return cu.MemsetD8Async(to, read<uint8_t>(pattern), size, native_);
      });
    case 2:
      return call("cuMemsetD16Async", [&](const Functions& cu) {
        return cu.MemsetD16Async(to, read<uint16_t>(pattern), size / 2, native_);
      });
    case 4:
      return call("cuMemsetD32Async", [&](const Functions& cu) {
        return cu.MemsetD32Async(to, read<uint32_t>(pattern), size / 4, native_);
      });
    case 8: {
      uint32_t words[2];
      std::memcpy(words, pattern, sizeof(words));
      if (words[0] == words[1]) return fill(destination, words, sizeof(words[0]), size);
      return fill_wide(to, words, size);
    }
    default:
      return kit::fail(KEEL_INVALID_ARGUMENT, "cuda: no fill with patterns of %u bytes",
                       pattern_size);
  }
}

// The driver has no 8-byte fill: doubles the filled part until the memory is full.
keel_status Stream::fill_wide(CUdeviceptr destination, const uint32_t (&words)[2], uint64_t size) {
  return call("a fill by copies", [&](const Functions& cu) {
    CUresult result = cu.MemsetD32Async(destination, words[0], 1, native_);
    if (result == CUDA_SUCCESS) result = cu.MemsetD32Async(destination + 4, words[1], 1, native_);
    for (uint64_t filled = 8; result == CUDA_SUCCESS && filled < size;) {
      const uint64_t more = std::min(filled, size - filled);
      result = cu.MemcpyDtoDAsync(destination + filled, destination, more, native_);
      filled += more;
    }
    return result;
  });
}

}  // namespace keel::cuda
