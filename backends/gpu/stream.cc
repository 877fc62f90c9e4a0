// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/stream.h"

#include <algorithm>
#include <cstring>
#include <keel/plugin_kit.hpp>

#include "backends/gpu/result_codes.h"

namespace keel::gpu {
namespace {

DeviceAddress address(const void* pointer) {
  return reinterpret_cast<DeviceAddress>(pointer);
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
  const keel_status status =
      device.call(Names::StreamCreateWithPriority, [&](const Functions& api) {
        return api.StreamCreateWithPriority(&stream->native_, kStreamNonBlocking,
                                            device.native_priority(priority));
      });
  if (status == KEEL_OK) *out_stream = std::move(stream);
  return status;
}

keel_status Stream::wrap(Device& device, NativeStream native, std::unique_ptr<Stream>* out_stream) {
  if (native == per_thread_stream()) {
    return kit::fail(KEEL_INVALID_ARGUMENT, KEEL_GPU ": %s is another stream in each thread",
                     kPerThreadStreamText);
  }
  NativeContext context = kNoContext;
  const keel_status status = device.call(Names::StreamGetCtx, [&](const Functions& api) {
    return context_of(api, native, device.context(), &context);
  });
  if (status != KEEL_OK) return status;
  if (context != device.context()) {
    return kit::fail(KEEL_INVALID_ARGUMENT,
                     KEEL_GPU ": the stream is not one of the device's primary context");
  }
  std::unique_ptr<Stream> stream(new Stream(device, /*is_owned=*/false));
  stream->share();
  stream->native_ = native;
  *out_stream = std::move(stream);
  return KEEL_OK;
}

Stream::~Stream() {
  if (!is_owned_ || native_ == nullptr) return;
  (void)device_.release(Names::StreamDestroy,
                        [&](const Functions& api) { return api.StreamDestroy(native_); });
}

keel_status Stream::query() {
  // A query would break the capture, and no work runs before the capture has ended.
  if (is_shared() && is_capturing()) return KEEL_NOT_READY;
  return device_.call(Names::StreamQuery, [&](const Functions& api) {
    const Result result = api.StreamQuery(native_);
    return is_of_capture(result) ? kErrorNotReady : result;
  });
}

bool Stream::is_capturing() const {
  const Functions& api = device_.functions();
  if (api.StreamIsCapturing == nullptr) return false;
  CaptureStatus status = kCaptureNone;
  const Result asked = device_.ask(
      [&](const Functions& functions) { return functions.StreamIsCapturing(native_, &status); });
  // Stream 0 itself cannot be queried while a stream that synchronises with it is captured.
  return is_of_capture(asked) || (asked == kSuccess && status != kCaptureNone);
}

keel_status Stream::refuse_capturing(const char* name) const {
  return kit::fail(KEEL_FAILED_PRECONDITION,
                   KEEL_GPU
                   ": %s: the stream %p is being captured into a graph, which Keel's work "
                   "cannot be part of",
                   name, static_cast<void*>(native_));
}

keel_status Stream::copy(keel_copy_kind kind, void* destination, const void* source,
                         uint64_t size) {
  switch (kind) {
    case KEEL_COPY_HOST_TO_DEVICE:
      return call(Names::MemcpyHtoDAsync, [&](const Functions& api) {
        return api.MemcpyHtoDAsync(address(destination), source, size, native_);
      });
    case KEEL_COPY_DEVICE_TO_HOST:
      return call(Names::MemcpyDtoHAsync, [&](const Functions& api) {
        return api.MemcpyDtoHAsync(destination, address(source), size, native_);
      });
    case KEEL_COPY_DEVICE_TO_DEVICE:
      return call(Names::MemcpyDtoDAsync, [&](const Functions& api) {
        return api.MemcpyDtoDAsync(address(destination), address(source), size, native_);
      });
    default:
      return kit::fail(KEEL_INVALID_ARGUMENT, KEEL_GPU ": no copy of kind %u", kind);
  }
}

// Peer access need not be enabled: without peer access the driver copies through the host.
keel_status Stream::copy_peer(Device& destination_device, void* destination, Device& source_device,
                              const void* source, uint64_t size) {
  destination_device.connect(source_device);
  return call(Names::MemcpyPeerAsync, [&](const Functions& api) {
    return api.MemcpyPeerAsync(address(destination), destination_device.context(), address(source),
                               source_device.context(), size, native_);
  });
}

keel_status Stream::fill(void* destination, const void* pattern, uint32_t pattern_size,
                         uint64_t size) {
  const DeviceAddress to = address(destination);
  switch (pattern_size) {
    case 1:
      return call(Names::MemsetD8Async, [&](const Functions& api) {
        return api.MemsetD8Async(to, read<uint8_t>(pattern), size, native_);
      });
    case 2:
      return call(Names::MemsetD16Async, [&](const Functions& api) {
        return api.MemsetD16Async(to, read<uint16_t>(pattern), size / 2, native_);
      });
    case 4:
      return call(Names::MemsetD32Async, [&](const Functions& api) {
        return api.MemsetD32Async(to, read<uint32_t>(pattern), size / 4, native_);
      });
    case 8: {
      uint32_t words[2];
      std::memcpy(words, pattern, sizeof(words));
      if (words[0] == words[1]) return fill(destination, words, sizeof(words[0]), size);
      return fill_wide(to, words, size);
    }
    default:
      return kit::fail(KEEL_INVALID_ARGUMENT, KEEL_GPU ": no fill with patterns of %u bytes",
                       pattern_size);
  }
}

// The driver has no 8-byte fill: doubles the filled part until the memory is full.
keel_status Stream::fill_wide(DeviceAddress destination, const uint32_t (&words)[2],
                              uint64_t size) {
  return call("a fill by copies", [&](const Functions& api) {
    Result result = api.MemsetD32Async(destination, words[0], 1, native_);
    if (result == kSuccess) result = api.MemsetD32Async(destination + 4, words[1], 1, native_);
    for (uint64_t filled = 8; result == kSuccess && filled < size;) {
      const uint64_t more = std::min(filled, size - filled);
      result = api.MemcpyDtoDAsync(destination + filled, destination, more, native_);
      filled += more;
    }
    return result;
  });
}

}  // namespace keel::gpu
