// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_LEVEL_ZERO_EVENT_H_
#define KEEL_BACKENDS_LEVEL_ZERO_EVENT_H_

#include <keel/abi.h>

#include <memory>
#include <vector>

#include "backends/level_zero/stream.h"

namespace keel::gpu {

// A native event, reset at each record: core records again only once all waits are done. With
// KEEL_EVENT_TIMING, the event has a place in host memory for the device's clock.
class Event {
 public:
  static keel_status create(Device& device, uint32_t flags, std::unique_ptr<Event>* out_event);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  keel_status record(Stream& stream);
  keel_status query();
  keel_status wait(int64_t timeout_ns);
  // Makes later work of |stream| wait.
  keel_status hold_back(Stream& stream);
  keel_status elapsed_since(const Event& start, uint64_t* out_nanoseconds);

 private:
  explicit Event(Device& device) : device_(device) {}

  Device& device_;
  ze::Event native_ = nullptr;
  uint64_t* time_ = nullptr;  // NULL without timing
};

// A gate: an event that the host signals. Waits of streams may precede the signal.
class Gate {
 public:
  static keel_status create(Device& device, std::unique_ptr<Gate>* out_gate);
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  keel_status open();
  keel_status hold_back(Stream& stream);

 private:
  explicit Gate(Device& device) : device_(device) {}

  Device& device_;
  ze::Event native_ = nullptr;
  std::vector<ze::Event> passed_;  // signalled behind each wait
};

}  // namespace keel::gpu

#endif  // KEEL_BACKENDS_LEVEL_ZERO_EVENT_H_
