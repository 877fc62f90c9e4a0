// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_GPU_STREAM_H_
#define KEEL_BACKENDS_GPU_STREAM_H_

#include <gpu_target.h>
#include <keel/abi.h>

#include <atomic>
#include <memory>
#include <utility>

#include "backends/gpu/device.h"

namespace keel::gpu {

// A stream that does not synchronise with stream 0, or a wrapped stream of the caller. A failure
// on a stream is sticky for the context and therefore for the device.
class Stream {
 public:
  static keel_status create(Device& device, int32_t priority, std::unique_ptr<Stream>* out_stream);
  // Wraps a stream that the caller keeps owning. Stream 0, the context's legacy stream, is valid.
  // The per-thread default stream is not: Keel also calls from threads of its own.
  static keel_status wrap(Device& device, NativeStream native, std::unique_ptr<Stream>* out_stream);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Device& device() const { return device_; }
  NativeStream native() const { return native_; }
  // Marks the stream as shared with a framework, which may capture the stream from now on.
  void share() { is_shared_.store(true, std::memory_order_relaxed); }

  // Device::call for work enqueued on this stream. While a framework captures the stream, returns
  // KEEL_FAILED_PRECONDITION without calling the driver: core cannot tell when work repeated by a
  // graph is over.
  template <typename Body>
  keel_status call(const char* name, Body&& body) const {
    if (is_shared() && is_capturing()) return refuse_capturing(name);
    return device_.call(name, std::forward<Body>(body));
  }

  keel_status query();
  keel_status copy(keel_copy_kind kind, void* destination, const void* source, uint64_t size);
  keel_status copy_peer(Device& destination_device, void* destination, Device& source_device,
                        const void* source, uint64_t size);
  keel_status fill(void* destination, const void* pattern, uint32_t pattern_size, uint64_t size);

 private:
  explicit Stream(Device& device, bool is_owned = true) : device_(device), is_owned_(is_owned) {}
  bool is_shared() const { return is_shared_.load(std::memory_order_relaxed); }
  bool is_capturing() const;
  keel_status refuse_capturing(const char* name) const;
  keel_status fill_wide(DeviceAddress destination, const uint32_t (&words)[2], uint64_t size);

  Device& device_;
  NativeStream native_ = nullptr;
  const bool is_owned_;
  std::atomic<bool> is_shared_{false};  // a framework has the native handle
};

}  // namespace keel::gpu

#endif  // KEEL_BACKENDS_GPU_STREAM_H_
