// SPDX-License-Identifier: Apache-2.0
// A CUDA program without Keel: measures the driver's own calls and the GPU's copy rate. Uses the
// plugin's primary context, so program and plugin access the same memory.
#ifndef KEEL_BENCH_RAW_CUDA_H_
#define KEEL_BENCH_RAW_CUDA_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace keel::bench {

// A GPU with a stream. The context is current on the thread that uses the object, during the
// object's lifetime. Addresses are device addresses, as in Keel's buffers. Failures throw.
class RawCuda {
 public:
  // Opens the device with the 16 bytes of |uuid| through the plugin's driver: from
  // KEEL_CUDA_LIBRARY_FOLDER, else from the dynamic loader. Returns NULL and the reason if the
  // device is absent or the build has no CUDA headers.
  static std::unique_ptr<RawCuda> open(const uint8_t* uuid, std::string* out_reason);
  virtual ~RawCuda() = default;

  // ---- calls with almost no work; none blocks ----

  // Loads kernel |name| of |image|, a cubin or PTX, for launch(). Returns false if the driver
  // rejects the image.
  virtual bool load(std::span<const std::byte> image, const char* name) = 0;
  // cuLaunchKernel of one thread; the kernel takes one 32-bit number.
  virtual void launch() = 0;
  // cuMemcpyHtoDAsync from pinned memory.
  virtual void upload(void* destination, const void* source, uint64_t bytes) = 0;
  // cuEventRecord of an event without timing.
  virtual void record() = 0;

  // ---- large copies ----

  // cuMemcpyDtoDAsync.
  virtual void copy(void* destination, const void* source, uint64_t bytes) = 0;
  // Copies |bytes| from |host| to |device| on one stream and |bytes| from |device_too| to
  // |host_too| on a second stream, concurrently. Returns when both copies are done. Host memory is
  // pinned.
  virtual void exchange(void* device, const void* host, void* host_too, const void* device_too,
                        uint64_t bytes) = 0;

  // ---- time ----

  // Returns the seconds from the start to the end of the work that |enqueue| puts on the stream, by
  // the device's clock. Blocks until the work is done.
  virtual double seconds_of(const std::function<void()>& enqueue) = 0;
  // Blocks until all enqueued work is done.
  virtual void wait() = 0;

  // The CUstream, for libraries that take one.
  virtual void* stream() const = 0;
};

}  // namespace keel::bench

#endif  // KEEL_BENCH_RAW_CUDA_H_
