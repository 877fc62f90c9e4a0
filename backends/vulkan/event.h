// A moment of a stream, and its time when the event was made for timing.
#ifndef KEEL_BACKENDS_VULKAN_EVENT_H_
#define KEEL_BACKENDS_VULKAN_EVENT_H_

#include <keel/abi.h>

#include <cstdint>
#include <memory>

#include "backends/vulkan/device.h"
#include "backends/vulkan/queue.h"

namespace keel::vulkan {

class Event {
 public:
  static keel_status create(Device& device, uint32_t flags, std::unique_ptr<Event>* out_event);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  // Called by Stream::record: the event is done when |moment| is, or has failed
  // with |failure| where that is no KEEL_OK.
  void set(Moment moment, keel_status failure);

  keel_status query() const;
  keel_status wait(int64_t timeout_ns) const;
  keel_status notify(keel_notify_fn fn, void* user) const;
  keel_status elapsed_since(const Event& start, uint64_t* out_nanoseconds) const;

  Moment moment() const { return moment_; }
  keel_status failure() const { return failure_; }
  VkQueryPool timestamp() const { return timestamp_; }  // VK_NULL_HANDLE without timing

 private:
  explicit Event(Device& device) : device_(device) {}
  keel_status read_ticks(uint64_t* out_ticks) const;

  Device& device_;
  VkQueryPool timestamp_ = VK_NULL_HANDLE;  // one query
  Moment moment_;
  keel_status failure_ = KEEL_OK;
};

}  // namespace keel::vulkan

#endif  // KEEL_BACKENDS_VULKAN_EVENT_H_
