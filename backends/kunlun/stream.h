// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_KUNLUN_STREAM_H_
#define KEEL_BACKENDS_KUNLUN_STREAM_H_

#include <keel/abi.h>

#include <memory>

#include "backends/kunlun/device.h"
#include "backends/kunlun/stream_waiter.h"

namespace keel::kunlun {

// An XPUStream, or a wrapped stream of the caller.
class Stream {
 public:
  static keel_status create(Device& device, std::unique_ptr<Stream>* out_stream);
  // Wraps a stream that the caller keeps owning; NULL is the device's default stream.
  static keel_status wrap(Device& device, xre::Stream native, std::unique_ptr<Stream>* out_stream);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Device& device() const { return device_; }
  xre::Stream native() const { return native_; }
  const std::shared_ptr<StreamWaiter>& waiter() const { return waiter_; }

  // Blocks until the copy is done where XRE has no xpu_memcpy_async.
  keel_status copy(keel_copy_kind kind, void* destination, const void* source, uint64_t size);

 private:
  Stream(Device& device, bool is_owned)
      : device_(device),
        is_owned_(is_owned),
        waiter_(std::make_shared<StreamWaiter>(device.functions(), device.number())) {}

  Device& device_;
  const bool is_owned_;
  xre::Stream native_ = nullptr;
  const std::shared_ptr<StreamWaiter> waiter_;
};

}  // namespace keel::kunlun

#endif  // KEEL_BACKENDS_KUNLUN_STREAM_H_
