// SPDX-License-Identifier: Apache-2.0
// Owns a leased internal stream.
#ifndef KEEL_COLLECTIVES_HIERARCHICAL_STREAM_LEASE_H_
#define KEEL_COLLECTIVES_HIERARCHICAL_STREAM_LEASE_H_

#include <utility>

#include "core/device.h"
#include "core/ref_counted.h"
#include "core/status.h"
#include "core/stream.h"

namespace keel {

// The destructor returns the stream to the device, which reuses the stream once its work has ended.
class StreamLease {
 public:
  static Status take(const Ref<Device>& device, bool is_urgent, StreamLease* out_lease) {
    Ref<Stream> stream;
    KEEL_RETURN_IF_ERROR(device->lease_stream(&stream, is_urgent));
    *out_lease = StreamLease(device, std::move(stream));
    return {};
  }
  StreamLease() = default;
  ~StreamLease() {
    if (stream_) device_->return_stream(std::move(stream_));
  }
  StreamLease(StreamLease&& other) noexcept
      : device_(std::move(other.device_)), stream_(std::move(other.stream_)) {}
  StreamLease& operator=(StreamLease&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(stream_, other.stream_);
    return *this;
  }
  StreamLease(const StreamLease&) = delete;
  StreamLease& operator=(const StreamLease&) = delete;

  Stream& operator*() const { return *stream_; }
  Stream* operator->() const { return stream_.get(); }

 private:
  StreamLease(Ref<Device> device, Ref<Stream> stream)
      : device_(std::move(device)), stream_(std::move(stream)) {}

  Ref<Device> device_;
  Ref<Stream> stream_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_HIERARCHICAL_STREAM_LEASE_H_
