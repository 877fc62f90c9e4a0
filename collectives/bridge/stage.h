// Windows of host memory that a rank's data passes through where the other ranks cannot
// reach its buffers.
#ifndef KEEL_COLLECTIVES_BRIDGE_STAGE_H_
#define KEEL_COLLECTIVES_BRIDGE_STAGE_H_

#include <array>
#include <cstdint>

#include "collectives/bootstrap/identity.h"
#include "collectives/transports/control_segment.h"
#include "collectives/transports/patience.h"
#include "core/device.h"
#include "core/event.h"
#include "core/status.h"
#include "core/stream.h"

namespace keel {

// Two windows in and two out, by the parity of the round: while the ranks work on one, the
// next arrives from the device and the one before leaves for it, each on a stream of its
// own. The windows are pinned for the device where it lets us; they lie in memory that the
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
      : device_(device), window_bytes_(window_bytes), shared_(shared), urgent_(urgent) {}
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  // Gets the memory, and the streams if the device copies; once, then nothing.
  Status prepare(bool device_copies);
  Place place() const { return place_; }
  uint64_t window_bytes() const { return window_bytes_; }
  // Offsets of the windows from place().
  uint64_t in_offset(uint64_t round) const { return round % 2 * window_bytes_; }
  uint64_t out_offset(uint64_t round) const { return (2 + round % 2) * window_bytes_; }
  char* in(uint64_t round) const { return memory_ + in_offset(round); }
  char* out(uint64_t round) const { return memory_ + out_offset(round); }

  // Starts to bring |bytes| at |offset| of |buffer| to |window_offset| in in(round). What
  // the window held has been read.
  Status fetch(uint64_t round, const Buffer& buffer, uint64_t offset, uint64_t window_offset,
               uint64_t bytes);
  // Waits for the fetches of the round.
  Status await_fetched(uint64_t round, Patience& patience);
  // Starts to bring |bytes| from out(round) to |buffer|.
  Status deliver(uint64_t round, const Buffer& buffer, uint64_t offset, uint64_t window_offset,
                 uint64_t bytes);
  // Waits until out(round) may be written again.
  Status await_delivered(uint64_t round, Patience& patience);

  // After a failure: waits for the copies that are still under way, whose other end is the
  // caller's memory.
  void settle();

  const Traffic& traffic() const { return traffic_; }

 private:
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
  Ref<Stream> to_host_;
  Ref<Stream> to_device_;
  std::array<Ref<EventRecord>, 2> fetched_;
  std::array<Ref<EventRecord>, 2> delivered_;
  Traffic traffic_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BRIDGE_STAGE_H_
