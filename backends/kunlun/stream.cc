// SPDX-License-Identifier: Apache-2.0
#include "backends/kunlun/stream.h"

#include <utility>

namespace keel::kunlun {

keel_status Stream::create(Device& device, std::unique_ptr<Stream>* out_stream) {
  std::unique_ptr<Stream> stream(new Stream(device, /*is_owned=*/true));
  const keel_status status = device.call("xpu_stream_create", [&](const xre::Functions& xpu) {
    return xpu.stream_create(&stream->native_);
  });
  if (status == KEEL_OK) *out_stream = std::move(stream);
  return status;
}

keel_status Stream::wrap(Device& device, xre::Stream native, std::unique_ptr<Stream>* out_stream) {
  out_stream->reset(new Stream(device, /*is_owned=*/false));
  (*out_stream)->native_ = native;
  return KEEL_OK;
}

Stream::~Stream() {
  waiter_->stop();
  if (!is_owned_ || native_ == nullptr) return;
  (void)device_.release("xpu_stream_destroy",
                        [&](const xre::Functions& xpu) { return xpu.stream_destroy(native_); });
}

keel_status Stream::copy(keel_copy_kind kind, void* destination, const void* source,
                         uint64_t size) {
  int native_kind = xre::kDeviceToDevice;
  if (kind == KEEL_COPY_HOST_TO_DEVICE) native_kind = xre::kHostToDevice;
  if (kind == KEEL_COPY_DEVICE_TO_HOST) native_kind = xre::kDeviceToHost;
  if (device_.functions().memcpy_async != nullptr) {
    return device_.call("xpu_memcpy_async", [&](const xre::Functions& xpu) {
      return xpu.memcpy_async(destination, source, size, native_kind, native_);
    });
  }
  // xpu_memcpy waits for the default stream alone.
  return device_.call("xpu_memcpy", [&](const xre::Functions& xpu) {
    const int waited = xpu.wait(native_);
    return waited == xre::kSuccess ? xpu.memcpy(destination, source, size, native_kind) : waited;
  });
}

}  // namespace keel::kunlun
