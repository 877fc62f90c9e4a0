// SPDX-License-Identifier: Apache-2.0
// A timeline value of a stream, with a timestamp if the event was created for timing.
#ifndef KEEL_BACKENDS_VULKAN_EVENT_H_
#define KEEL_BACKENDS_VULKAN_EVENT_H_

#include <keel/abi.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "backends/vulkan/device.h"
#include "backends/vulkan/queue.h"

namespace keel::vulkan {

class Stream;

// State that a stream shares with the events recorded on it, which may outlive the stream. Through
// the link, a thread that waits for an event submits the stream's open batch.
struct StreamLink {
  std::mutex mutex;          // the stream's; released while the stream waits
  Stream* stream = nullptr;  // guarded by |mutex|; NULL after the stream's destruction
};

// An event completes only after submission. A timing event stays in its stream's open batch, behind
// the work before it, while the device is still busy with the stream's earlier work. Submitting
// each timing event separately, at 30 to 90 us on lavapipe, would dominate the cost of a trace.
class Event {
 public:
  static keel_status create(Device& device, uint32_t flags, std::unique_ptr<Event>* out_event);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  // Called by the stream. The event completes when |completion| is reached, or has failed if
  // |failure| is not KEEL_OK.
  void set(TimelineValue completion, keel_status failure);
  // Marks the event as part of the open batch of |link|'s stream, which calls set() later.
  void set_open(std::shared_ptr<StreamLink> link);

  // Submits the batch that contains the event.
  void submit() const;

  keel_status query() const;
  keel_status wait(int64_t timeout_ns) const;
  keel_status notify(keel_notify_fn fn, void* user) const;
  keel_status elapsed_since(const Event& start, uint64_t* out_nanoseconds) const;

  TimelineValue completion() const { return completion_; }
  keel_status failure() const { return device_.lost() ? keel_status{KEEL_DEVICE_LOST} : failure_; }
  VkQueryPool timestamp() const { return timestamp_; }  // VK_NULL_HANDLE without timing

 private:
  explicit Event(Device& device) : device_(device) {}
  bool is_submitted() const { return submitted_.load(std::memory_order_acquire); }
  keel_status read_ticks(uint64_t* out_ticks) const;

  Device& device_;
  VkQueryPool timestamp_ = VK_NULL_HANDLE;  // one query
  std::shared_ptr<StreamLink> link_;        // the stream whose open batch contains the event
  std::atomic<bool> submitted_{true};
  TimelineValue completion_;  // completion_ and failure_ are valid after submission
  keel_status failure_ = KEEL_OK;
};

}  // namespace keel::vulkan

#endif  // KEEL_BACKENDS_VULKAN_EVENT_H_
