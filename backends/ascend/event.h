// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_ASCEND_EVENT_H_
#define KEEL_BACKENDS_ASCEND_EVENT_H_

#include <keel/abi.h>

#include <memory>

#include "backends/ascend/stream.h"

namespace keel::ascend {

// An event of aclrtCreateEventExWithFlag, which streams record again without a reset.
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
  aclrtEvent native_ = nullptr;
};

}  // namespace keel::ascend

#endif  // KEEL_BACKENDS_ASCEND_EVENT_H_
