// SPDX-License-Identifier: Apache-2.0
// Places timing events of a device on the host's clock.
#ifndef KEEL_CORE_TRACE_DEVICE_CLOCK_H_
#define KEEL_CORE_TRACE_DEVICE_CLOCK_H_

#include <cstdint>

#include "core/event.h"
#include "core/ref_counted.h"
#include "core/stream.h"

namespace keel {

// The ABI reports only differences between timing events, so one event must be placed on the host's
// clock: DeviceClock records an event on a stream of its own between two readings of the host's
// clock, and places the event half-way. Repeated every second, for clocks that drift apart (20 us
// per second is usual) or wrap. Used by the thread that writes the trace.
class DeviceClock {
 public:
  explicit DeviceClock(Device& device) : device_(device) {}
  ~DeviceClock();
  DeviceClock(const DeviceClock&) = delete;
  DeviceClock& operator=(const DeviceClock&) = delete;

  // Returns whether to_host() can be called; tries to become ready. A busy device answers late:
  // then returns false until a later call.
  bool ready();
  // The device has no timing events, or none can be recorded: only the host's clock is left.
  bool unusable() const { return unusable_; }

  // Converts |record|, which is done, to the host's clock. False if the plugin gives no time.
  bool to_host(const EventRecord& record, int64_t* out_ns) const;

 private:
  struct Anchor {
    Ref<EventRecord> record;
    int64_t host_ns = 0;
    int64_t width_ns = INT64_MAX;  // between the two readings
  };
  // Takes one measurement, of at most three rounds of 5 ms.
  bool measure(Anchor* out_anchor);

  Device& device_;
  bool unusable_ = false;
  Ref<Stream> stream_;
  Anchor anchor_;
  int64_t next_measurement_ns_ = 0;
};

}  // namespace keel

#endif  // KEEL_CORE_TRACE_DEVICE_CLOCK_H_
