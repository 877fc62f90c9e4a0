// SPDX-License-Identifier: Apache-2.0
// A moment of a stream, and its time when the event was made for timing.
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

// What a stream shares with the events recorded on it, which may outlive it. Another
// thread that asks for an event has the batch submitted that the event is in.
struct StreamLink {
  std::mutex mutex;          // the stream's: its calls hold it, but not while they wait
  Stream* stream = nullptr;  // guarded by |mutex|; NULL once it is gone
};

// Done only once it was submitted: a timing event stays in its stream's open batch, with
// the work before it, while the device has other work of the stream's to do. A
// submission each, of 30 to 90 us on lavapipe, would be most of what a trace costs.
class Event {
 public:
  static keel_status create(Device& device, uint32_t flags, std::unique_ptr<Event>* out_event);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  // For the stream. The event is done when |moment| is, or has failed with |failure|
  // where that is no KEEL_OK.
  void set(Moment moment, keel_status failure);
  // It is in the open batch of |link|'s stream, which calls set() later.
  void set_open(std::shared_ptr<StreamLink> link);

  // Has the batch that it is in submitted.
  void submit() const;

  keel_status query() const;
  keel_status wait(int64_t timeout_ns) const;
  keel_status notify(keel_notify_fn fn, void* user) const;
  keel_status elapsed_since(const Event& start, uint64_t* out_nanoseconds) const;

  Moment moment() const { return moment_; }
  keel_status failure() const { return failure_; }
  VkQueryPool timestamp() const { return timestamp_; }  // VK_NULL_HANDLE without timing

 private:
  explicit Event(Device& device) : device_(device) {}
  bool is_submitted() const { return submitted_.load(std::memory_order_acquire); }
  keel_status read_ticks(uint64_t* out_ticks) const;

  Device& device_;
  VkQueryPool timestamp_ = VK_NULL_HANDLE;  // one query
  std::shared_ptr<StreamLink> link_;        // of the stream that has it in its open batch
  std::atomic<bool> submitted_{true};
  Moment moment_;  // this and what follows: once submitted
  keel_status failure_ = KEEL_OK;
};

}  // namespace keel::vulkan

#endif  // KEEL_BACKENDS_VULKAN_EVENT_H_
