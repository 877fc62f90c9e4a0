// SPDX-License-Identifier: Apache-2.0
// Sums of two ranks that the device of one of them makes of both ranks' buffers.
#ifndef KEEL_COLLECTIVES_BRIDGE_DEVICE_SUM_H_
#define KEEL_COLLECTIVES_BRIDGE_DEVICE_SUM_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "collectives/transports/control_segment.h"
#include "collectives/transports/patience.h"
#include "core/device.h"
#include "core/event.h"
#include "core/status.h"
#include "core/stream.h"

namespace keel {

// The data goes in windows. The device brings the other rank's elements of one into memory of its
// own, adds them to those that it has, and takes the sums to where the other rank wants them: each
// on a stream of its own, so that both directions and the operator are busy at once, and no thread
// of the host touches a byte. For one thread, but for summed_bytes().
class DeviceSum {
 public:
  // In flight: what a link of 50 GB/s moves in 0.3 ms, by when the host has heard of the first.
  static constexpr uint32_t kWindows = 8;
  // As long as somebody may want the link at once.
  static constexpr uint32_t kFewWindows = 2;
  static constexpr uint64_t kMostBytes = 2 << 20;  // of a window
  // Below that the windows are so few that the host is done as soon.
  static constexpr uint64_t kLeastBytes = 256 << 10;

  // Where a window, or the whole of the data, begins.
  struct Ends {
    const char* own = nullptr;  // of the device
    char* own_sum = nullptr;
    const char* others = nullptr;  // the other rank's: memory of the host that the device reaches
    char* others_sum = nullptr;

    Ends at(uint64_t offset) const {
      return {own + offset, own_sum + offset, others + offset, others_sum + offset};
    }
  };

  // |chunk_bytes|: no window is larger.
  DeviceSum(Device& device, uint64_t chunk_bytes, bool urgent)
      : device_(device), most_bytes_(std::min(chunk_bytes, kMostBytes)), urgent_(urgent) {}
  ~DeviceSum();
  DeviceSum(const DeviceSum&) = delete;
  DeviceSum& operator=(const DeviceSum&) = delete;

  // Of a window, where there are |bytes| in all.
  static uint64_t window_bytes(uint64_t bytes, uint64_t chunk_bytes);
  // Whether |device| has an operator for windows of |window| elements and the last of |count|.
  static bool has_kernels(Device& device, keel_dtype dtype, uint64_t count, uint64_t window);

  // Whether it has, and memory and streams. Gets those, once; where it cannot, it is not asked
  // again.
  bool prepare(keel_dtype dtype, uint64_t count, uint64_t window);
  // Enqueues window |round| of |count| elements. All of round - kWindows has been awaited.
  Status enqueue(uint64_t round, keel_dtype dtype, uint64_t count, const Ends& ends);
  // Waits for all of the round, unless |segment| fails.
  Status await(uint64_t round, Patience& patience, const ControlSegment& segment);
  // After a failure: waits until nothing of it touches the ranks' memory any more.
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
  char* brought_ = nullptr;  // kWindows of them
  Way bringing_;
  Way adding_;
  Way taking_;
  std::atomic<uint64_t> summed_bytes_{0};
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BRIDGE_DEVICE_SUM_H_
