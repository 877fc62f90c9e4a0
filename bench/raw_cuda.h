// SPDX-License-Identifier: Apache-2.0
// A CUDA program without Keel: what the driver's own calls cost, and how fast the GPU copies. It
// works on the plugin's primary context, so that both use the same memory.
#ifndef KEEL_BENCH_RAW_CUDA_H_
#define KEEL_BENCH_RAW_CUDA_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace keel::bench {

// One GPU and a stream of its own, used by one thread, whose current context it is as long as it
// lives. Addresses are the device's, as Keel's buffers have them. Failures are thrown.
class RawCuda {
 public:
  // The device with the 16 bytes of |uuid|, by the driver that the plugin opens: that of
  // KEEL_CUDA_LIBRARY_FOLDER, else the dynamic loader's. NULL, with the reason, where there is
  // none or this build has no CUDA headers.
  static std::unique_ptr<RawCuda> open(const uint8_t* uuid, std::string* out_reason);
  virtual ~RawCuda() = default;

  // ---- calls that do next to nothing; none of them waits ----

  // The kernel |name| of |image|, a cubin or PTX: what launch() launches. False where the driver
  // takes no such image.
  virtual bool load(std::span<const std::byte> image, const char* name) = 0;
  // cuLaunchKernel of one thread; the kernel takes one 32-bit number.
  virtual void launch() = 0;
  // cuMemcpyHtoDAsync from pinned memory.
  virtual void upload(void* destination, const void* source, uint64_t bytes) = 0;
  // cuEventRecord of an event without a time.
  virtual void record() = 0;

  // ---- copies of much ----

  // cuMemcpyDtoDAsync.
  virtual void copy(void* destination, const void* source, uint64_t bytes) = 0;
  // From |host| to |device| on one stream and from |device_too| to |host_too| on another, both at
  // once and |bytes| each; returns when both are done. Host memory is pinned.
  virtual void exchange(void* device, const void* host, void* host_too, const void* device_too,
                        uint64_t bytes) = 0;

  // ---- time ----

  // What |enqueue| puts on the stream, from the first to the last, in seconds by the device's
  // clock. Waits.
  virtual double seconds_of(const std::function<void()>& enqueue) = 0;
  // Until all that was enqueued is done.
  virtual void wait() = 0;

  // CUstream, for libraries that take one.
  virtual void* stream() const = 0;
};

}  // namespace keel::bench

#endif  // KEEL_BENCH_RAW_CUDA_H_
