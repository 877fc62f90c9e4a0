// SPDX-License-Identifier: Apache-2.0
// Staging pipeline: bounce buffers in host memory for a rank's data where the other ranks cannot
// reach the rank's buffers.
#ifndef KEEL_COLLECTIVES_BRIDGE_STAGING_PIPELINE_H_
#define KEEL_COLLECTIVES_BRIDGE_STAGING_PIPELINE_H_

#include <array>
#include <chrono>
#include <cstdint>

#include "collectives/bootstrap/identity.h"
#include "collectives/bridge/chunk_plan.h"
#include "collectives/transports/mem_handle.h"
#include "collectives/transports/wait_context.h"
#include "core/device.h"
#include "core/event.h"
#include "core/status.h"
#include "core/stream.h"

namespace keel {

// A few windows in each direction, used round-robin. While the ranks work on one window, the device
// fills the next ones and drains the previous ones, with a stream for each direction. The windows
// are pinned if the device supports host_register. They lie in memory that other processes can map,
// unless all ranks are in this process. Used by one thread.
class StagingPipeline {
 public:
  // A buffer of the rank. If |host| is set, the calling thread copies from there; otherwise the
  // device copies from |device|.
  struct Buffer {
    char* host = nullptr;
    char* device = nullptr;
  };
  struct Traffic {
    uint64_t to_host = 0;
    uint64_t to_device = 0;
  };

  // |shared|: ranks of other processes read the windows. |urgent|: copies run on urgent streams,
  // ahead of normal ones.
  StagingPipeline(Device& device, uint64_t window_bytes, bool shared, bool urgent)
      : device_(device),
        window_bytes_(window_bytes),
        shared_(shared),
        urgent_(urgent),
        bytes_(window_bytes) {}
  ~StagingPipeline();
  StagingPipeline(const StagingPipeline&) = delete;
  StagingPipeline& operator=(const StagingPipeline&) = delete;

  // Allocates memory for two windows of |window_bytes| in each direction, and leases the streams if
  // the device copies. Later calls do nothing.
  Status prepare(bool device_copies);
  MemHandle place() const { return place_; }
  // Divides the memory into |count| windows of |bytes| in each direction. No window may be in use.
  // |count| * |bytes| is at most 2 * |window_bytes|; the initial division is two windows of
  // |window_bytes|.
  void use_windows(uint64_t bytes, uint32_t count) {
    bytes_ = bytes;
    count_ = count;
  }
  uint32_t windows() const { return count_; }
  // Byte offsets of the windows from place().
  uint64_t in_offset(uint64_t round) const { return round % count_ * bytes_; }
  uint64_t out_offset(uint64_t round) const { return 2 * window_bytes_ + in_offset(round); }
  char* in(uint64_t round) const { return memory_ + in_offset(round); }
  char* out(uint64_t round) const { return memory_ + out_offset(round); }

  // Starts the copy of |bytes| at |offset| of |buffer| to |window_offset| in in(round). All readers
  // of the window's former contents have finished.
  Status fetch(uint64_t round, const Buffer& buffer, uint64_t offset, uint64_t window_offset,
               uint64_t bytes);
  // Waits for all fetches of |round|.
  Status await_fetched(uint64_t round, WaitContext& wait_context);
  // Starts the device copy of |bytes| from |window_offset| in out(round) to |offset| of |buffer|.
  Status deliver(uint64_t round, const Buffer& buffer, uint64_t offset, uint64_t window_offset,
                 uint64_t bytes);
  // Waits until the caller may overwrite out(round).
  Status await_delivered(uint64_t round, WaitContext& wait_context);

  // After a failure: waits at most 5 s for running copies, since they still touch the caller's
  // memory.
  void settle();

  const Traffic& traffic() const { return traffic_; }
  // Copy rates; 0 while unknown. Measured with the device's event timers, or by the host's clock if
  // the device has none: then only from copies that had the direction to themselves. Measured over
  // the first 8 windows only and constant afterwards, because a plan that all ranks derive from the
  // rates should not change with every operation.
  double out_rate() const { return leaving_.rate(); }  // GB/s, device to host
  double in_rate() const { return entering_.rate(); }

 private:
  // One direction: the copies of each window, and the rate of the fastest copy.
  class Way {
   public:
    // Called before and after each copy of |bytes| into or out of a window.
    Status begin(Stream& stream, uint64_t round, uint32_t count, uint64_t bytes);
    Status end(Stream& stream, uint64_t round, uint32_t count, uint64_t bytes);
    Status await(uint64_t round, uint32_t count, WaitContext& wait_context);
    // Waits for the copies of a window that the host times, 50 ms at most: await() comes when the
    // window is needed again, and would count the work between.
    void finish_host_timing(uint64_t round, uint32_t count);
    // |stream|: the stream that ran the copies.
    void settle(Stream& stream, const Deadline& deadline);
    bool is_idle() const;
    double rate() const { return measured_ < kMeasured ? 0 : rate_; }

   private:
    static constexpr uint32_t kMeasured = 8;
    // A shorter copy measures the submission rather than the link.
    static constexpr uint64_t kLeastBytes = 64 << 10;

    struct Window {
      Ref<EventRecord> begun;  // set if the window is measured by the device
      std::chrono::steady_clock::time_point begun_at;  // set if it is measured by the host
      Ref<EventRecord> done;
      uint64_t bytes = 0;
    };
    static bool is_timed_by_host(const Window& window);
    void measure_by_host(const Window& window);
    void measure(const Window& window);
    void add_rate(uint64_t bytes, uint64_t elapsed_ns);

    std::array<Window, ChunkPlan::kMostWindows> windows_;
    bool has_untold_ = false;  // a running copy has no event behind it
    double rate_ = 0;
    uint32_t measured_ = 0;
  };

  Status allocate_private();
  Status allocate_shared();

  Device& device_;
  const uint64_t window_bytes_;
  const bool shared_;
  const bool urgent_;
  char* memory_ = nullptr;
  MemHandle place_;
  ObjectId object_;
  bool registered_ = false;  // pinned by the device
  uint64_t bytes_;           // current size of a window
  uint32_t count_ = 2;
  Ref<Stream> to_host_;
  Ref<Stream> to_device_;
  Way leaving_;
  Way entering_;
  Traffic traffic_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BRIDGE_STAGING_PIPELINE_H_
