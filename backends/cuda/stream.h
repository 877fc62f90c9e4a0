// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_CUDA_STREAM_H_
#define KEEL_BACKENDS_CUDA_STREAM_H_

#include <cuda.h>
#include <keel/abi.h>

#include <atomic>
#include <memory>
#include <utility>

#include "backends/cuda/device.h"

namespace keel::cuda {

// A CUstream that does not wait for the stream 0, or one of the caller's. What fails on it is the
// context's, and so the device's, for good.
class Stream {
 public:
  static keel_status create(Device& device, int32_t priority, std::unique_ptr<Stream>* out_stream);
  // Around a stream of the caller's, who keeps it; 0, the context's own, is a valid one. The one
  // that is another in each thread is not: Keel calls from threads of its own, too.
  static keel_status wrap(Device& device, CUstream native, std::unique_ptr<Stream>* out_stream);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Device& device() const { return device_; }
  CUstream native() const { return native_; }
  // A framework may capture it from now on.
  void share() { is_shared_.store(true, std::memory_order_relaxed); }

  // Device::call for what is put on this stream. KEEL_FAILED_PRECONDITION, and no call at all,
  // while a framework captures it: core could not tell when work is over that a graph repeats.
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
  keel_status fill_wide(CUdeviceptr destination, const uint32_t (&words)[2], uint64_t size);

  Device& device_;
  CUstream native_ = nullptr;
  const bool is_owned_;
  std::atomic<bool> is_shared_{false};  // with a framework, which has its handle
};

}  // namespace keel::cuda

#endif  // KEEL_BACKENDS_CUDA_STREAM_H_
