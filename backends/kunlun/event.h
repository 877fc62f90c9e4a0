// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_KUNLUN_EVENT_H_
#define KEEL_BACKENDS_KUNLUN_EVENT_H_

#include <keel/abi.h>

#include <memory>

#include "backends/kunlun/stream.h"

namespace keel::kunlun {

// An XPUEvent. The waiter of the stream that recorded the event knows whether the event is done.
class Event {
 public:
  static keel_status create(Device& device, std::unique_ptr<Event>* out_event);
  // Leaves the native event behind if XRE is still in a wait for it.
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  keel_status record(const Stream& stream);
  keel_status query();
  keel_status wait(int64_t timeout_ns);
  void notify(keel_notify_fn fn, void* user);
  keel_status hold_back(const Stream& stream);

 private:
  explicit Event(Device& device) : device_(device) {}

  Device& device_;
  xre::Event native_ = nullptr;
  std::shared_ptr<StreamWaiter> waiter_;  // of the last record; NULL: never recorded
  uint64_t number_ = 0;
};

}  // namespace keel::kunlun

#endif  // KEEL_BACKENDS_KUNLUN_EVENT_H_
