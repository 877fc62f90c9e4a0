// SPDX-License-Identifier: Apache-2.0
// Device-offloaded reduction of two ranks' buffers, run by the device of one of the two ranks.
#ifndef KEEL_COLLECTIVES_BRIDGE_DEVICE_REDUCTION_H_
#define KEEL_COLLECTIVES_BRIDGE_DEVICE_REDUCTION_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "collectives/transports/abort_record.h"
#include "collectives/transports/wait_context.h"
#include "core/device.h"
#include "core/event.h"
#include "core/status.h"
#include "core/stream.h"

namespace keel {

// A pipeline over windows of the data. The device copies a window of the other rank's elements into
// its own memory, adds the window to its own elements, and copies the sums to where the other rank
// wants them. Each step has a stream, so both directions of the link and the adder are busy at the
// same time and no host thread touches the data. Used by one thread; only summed_bytes() may be
// called from any thread.
class DeviceReduction {
 public:
  // Windows in flight. A link of 50 GB/s moves 8 windows in 0.3 ms; by then the host has seen the
  // first completion.
  static constexpr uint32_t kWindows = 8;
  // Windows in flight while an urgent communicator may want the link at any time.
  static constexpr uint32_t kFewWindows = 2;
  static constexpr uint64_t kMostBytes = 2 << 20;  // per window
  // Smaller data has so few windows that a sum on the host is as fast.
  static constexpr uint64_t kLeastBytes = 256 << 10;

  // Addresses at which a window, or all of the data, begins.
  struct Ends {
    const char* own = nullptr;  // memory of the device
    char* own_sum = nullptr;
    const char* others = nullptr;  // the other rank's: host memory that the device reaches
    char* others_sum = nullptr;

    Ends at(uint64_t offset) const {
      return {own + offset, own_sum + offset, others + offset, others_sum + offset};
    }
  };

  // |chunk_bytes|: upper limit of a window, in bytes. |urgent|: leases urgent streams.
  DeviceReduction(Device& device, uint64_t chunk_bytes, bool urgent)
      : device_(device), most_bytes_(std::min(chunk_bytes, kMostBytes)), urgent_(urgent) {}
  ~DeviceReduction();
  DeviceReduction(const DeviceReduction&) = delete;
  DeviceReduction& operator=(const DeviceReduction&) = delete;

  // Bytes of a window when |bytes| are summed in all.
  static uint64_t window_bytes(uint64_t bytes, uint64_t chunk_bytes);
  // Whether |device| has a plugin kernel for a window of |window| elements and for the remainder of
  // |count|.
  static bool has_kernels(Device& device, keel_dtype dtype, uint64_t count, uint64_t window);

  // Whether the device has the kernels, the memory and the streams. Allocates memory and streams on
  // first success of the kernel check; after a failed allocation every later call returns false.
  bool prepare(keel_dtype dtype, uint64_t count, uint64_t window);
  // Enqueues window |round|, of |count| elements. Requires a completed await() of |round| -
  // kWindows.
  Status enqueue(uint64_t round, keel_dtype dtype, uint64_t count, const Ends& ends);
  // Waits until all three steps of |round| have ended. Fails early if the communicator of
  // |failures| fails.
  Status await(uint64_t round, WaitContext& wait_context, const AbortRecord& failures);
  // After a failure: blocks until no step touches the ranks' memory any more. After 5 s the device
  // is marked lost.
  void settle();

  uint64_t summed_bytes() const { return summed_bytes_.load(std::memory_order_relaxed); }

 private:
  struct Way {
    Ref<Stream> stream;
    std::array<Ref<EventRecord>, kWindows> over;
  };

  Status get_memory_and_streams();
  Status add(keel_dtype dtype, uint64_t count, const char* brought, const Ends& ends);

  Device& device_;
  const uint64_t most_bytes_;
  const bool urgent_;
  bool is_refused_ = false;
  char* brought_ = nullptr;  // kWindows windows of most_bytes_
  Way bringing_;
  Way adding_;
  Way taking_;
  std::atomic<uint64_t> summed_bytes_{0};
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BRIDGE_DEVICE_REDUCTION_H_
