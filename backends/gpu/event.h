// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_GPU_EVENT_H_
#define KEEL_BACKENDS_GPU_EVENT_H_

#include <gpu_target.h>
#include <keel/abi.h>

#include <memory>

#include "backends/gpu/stream.h"

namespace keel::gpu {

// A NativeEvent. There is no wait function: the driver's wait has no timeout, so core polls.
class Event {
 public:
  static keel_status create(Device& device, uint32_t flags, std::unique_ptr<Event>* out_event);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  keel_status record(const Stream& stream);
  keel_status query();
  keel_status hold_back(const Stream& stream);
  keel_status elapsed_since(const Event& start, uint64_t* out_nanoseconds);

 private:
  explicit Event(Device& device) : device_(device) {}

  Device& device_;
  NativeEvent native_ = nullptr;
};

}  // namespace keel::gpu

#endif  // KEEL_BACKENDS_GPU_EVENT_H_
