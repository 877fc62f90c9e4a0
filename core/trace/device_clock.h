// SPDX-License-Identifier: Apache-2.0
// When, by the host's clock, a timing event of a device happened.
#ifndef KEEL_CORE_TRACE_DEVICE_CLOCK_H_
#define KEEL_CORE_TRACE_DEVICE_CLOCK_H_

#include <cstdint>

#include "core/event.h"
#include "core/ref_counted.h"
#include "core/stream.h"

namespace keel {

// Timing events of the ABI tell differences only, so that one of them has to be placed
// on the host's clock: an event is recorded on a stream of the clock's own, between two looks at
// the clock, and lies half-way. Done anew every second, for clocks that run apart (20 us a second
// are usual) or wrap. Used by the thread that writes the trace.
class DeviceClock {
 public:
  explicit DeviceClock(Device& device) : device_(device) {}
  ~DeviceClock();
  DeviceClock(const DeviceClock&) = delete;
  DeviceClock& operator=(const DeviceClock&) = delete;

  // Whether to_host() can be asked; tries to become ready. |busy| devices answer late:
  // then it is false until a later call.
  bool ready();
  // No timing events, or none that can be recorded: the host's clock has to do.
  bool unusable() const { return unusable_; }

  // |record| is done. False if the plugin does not tell.
  bool to_host(const EventRecord& record, int64_t* out_ns) const;

 private:
  struct Anchor {
    Ref<EventRecord> record;
    int64_t host_ns = 0;
    int64_t width_ns = INT64_MAX;  // between the two looks
  };
  // One measurement, of a few milliseconds at most.
  bool measure(Anchor* out_anchor);

  Device& device_;
  bool unusable_ = false;
  Ref<Stream> stream_;
  Anchor anchor_;
  int64_t next_measurement_ns_ = 0;
};

}  // namespace keel

#endif  // KEEL_CORE_TRACE_DEVICE_CLOCK_H_
