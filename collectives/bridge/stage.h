// SPDX-License-Identifier: Apache-2.0
// Windows of host memory that a rank's data passes through where the other ranks cannot
// reach its buffers.
#ifndef KEEL_COLLECTIVES_BRIDGE_STAGE_H_
#define KEEL_COLLECTIVES_BRIDGE_STAGE_H_

#include <array>
#include <cstdint>

#include "collectives/bootstrap/identity.h"
#include "collectives/bridge/exchange_plan.h"
#include "collectives/transports/control_segment.h"
#include "collectives/transports/patience.h"
#include "core/device.h"
#include "core/event.h"
#include "core/status.h"
#include "core/stream.h"

namespace keel {

// A few windows in and as many out, which the rounds use in turn: while the ranks work on one,
// the next ones arrive from the device and those before leave for it, each way on a stream of
// its own. The windows are pinned for the device where it lets us; they lie in memory that the
// other processes can map, unless all ranks are in this one. For one thread.
class Stage {
 public:
  // A buffer that the rank has: |host| where the host reaches it, which is then copied by
  // the calling thread; else |device| is copied by the device.
  struct Buffer {
    char* host = nullptr;
    char* device = nullptr;
  };
  struct Traffic {
    uint64_t to_host = 0;
    uint64_t to_device = 0;
  };

  // |shared|: ranks of other processes will read the windows. |urgent|: its copies go before
  // those of others.
  Stage(Device& device, uint64_t window_bytes, bool shared, bool urgent)
      : device_(device),
        window_bytes_(window_bytes),
        shared_(shared),
        urgent_(urgent),
        bytes_(window_bytes) {}
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  // Gets the memory, for two windows each way, and the streams if the device copies; once,
  // then nothing.
  Status prepare(bool device_copies);
  Place place() const { return place_; }
  // Divides it anew, into |count| windows each way, none of which is in use; at first there
  // are two of the largest size. |count| * |bytes| is at most two of those.
  void use_windows(uint64_t bytes, uint32_t count) {
    bytes_ = bytes;
    count_ = count;
  }
  uint32_t windows() const { return count_; }
  // Offsets of the windows from place().
  uint64_t in_offset(uint64_t round) const { return round % count_ * bytes_; }
  uint64_t out_offset(uint64_t round) const { return 2 * window_bytes_ + in_offset(round); }
  char* in(uint64_t round) const { return memory_ + in_offset(round); }
  char* out(uint64_t round) const { return memory_ + out_offset(round); }

  // Starts to bring |bytes| at |offset| of |buffer| to |window_offset| in in(round). What
  // the window held has been read.
  Status fetch(uint64_t round, const Buffer& buffer, uint64_t offset, uint64_t window_offset,
               uint64_t bytes);
  // Waits for the fetches of the round.
  Status await_fetched(uint64_t round, Patience& patience);
  // Starts to have the device bring |bytes| from out(round) to |buffer|.
  Status deliver(uint64_t round, const Buffer& buffer, uint64_t offset, uint64_t window_offset,
                 uint64_t bytes);
  // Waits until out(round) may be written again.
  Status await_delivered(uint64_t round, Patience& patience);

  // After a failure: waits for the copies that are still under way, whose other end is the
  // caller's memory.
  void settle();

  const Traffic& traffic() const { return traffic_; }
  // How fast the device copied, as its own clock says; 0 where that is not known yet, or it
  // has no clock. Taken from the first windows, and then left: a plan that all ranks make of
  // it should not change with each operation.
  double out_rate() const { return leaving_.rate(); }  // GB/s, to the host
  double in_rate() const { return entering_.rate(); }

 private:
  // One direction: the copies of each window, and how fast the fastest was.
  class Way {
   public:
    // Before and after each copy of a window, of |bytes|.
    Status begin(Stream& stream, uint64_t round, uint32_t count, uint64_t bytes);
    Status end(Stream& stream, uint64_t round, uint32_t count, uint64_t bytes);
    Status await(uint64_t round, uint32_t count, Patience& patience);
    // |stream|: that they went to.
    void settle(Stream& stream, const Deadline& deadline);
    bool is_idle() const;
    double rate() const { return measured_ < kMeasured ? 0 : rate_; }

   private:
    static constexpr uint32_t kMeasured = 8;
    // Shorter ones tell more of a submission than of the way.
    static constexpr uint64_t kLeastBytes = 64 << 10;

    struct Window {
      Ref<EventRecord> begun;  // where it is measured
      Ref<EventRecord> done;
      uint64_t bytes = 0;
    };
    void measure(const Window& window);

    std::array<Window, ExchangePlan::kMostWindows> windows_;
    bool has_untold_ = false;  // a copy under way that no record stands behind
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
  Place place_;
  ObjectId object_;
  bool registered_ = false;  // pinned by the device
  uint64_t bytes_;           // of a window now
  uint32_t count_ = 2;
  Ref<Stream> to_host_;
  Ref<Stream> to_device_;
  Way leaving_;
  Way entering_;
  Traffic traffic_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BRIDGE_STAGE_H_
