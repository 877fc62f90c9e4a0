// SPDX-License-Identifier: Apache-2.0
#include "backends/vulkan/event.h"

#include <utility>

#include "backends/vulkan/result.h"
#include "backends/vulkan/stream.h"

namespace keel::vulkan {

keel_status Event::create(Device& device, uint32_t flags, std::unique_ptr<Event>* out_event) {
  if (const keel_status lost = device.state(); lost != KEEL_OK) return lost;
  std::unique_ptr<Event> event(new Event(device));
  if ((flags & KEEL_EVENT_TIMING) != 0) {
    if (device.physical().timestamp_mask == 0) {
      return kit::fail(KEEL_UNSUPPORTED, "the device's queues have no timestamps");
    }
    VkQueryPoolCreateInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
    info.queryType = VK_QUERY_TYPE_TIMESTAMP;
    info.queryCount = 1;
    const keel_status status = to_status(
        device.functions().CreateQueryPool(device.handle(), &info, nullptr, &event->timestamp_),
        "vkCreateQueryPool");
    if (status != KEEL_OK) return status;
  }
  *out_event = std::move(event);
  return KEEL_OK;
}

Event::~Event() {
  submit();  // its stream drops the reference
  device_.functions().DestroyQueryPool(device_.handle(), timestamp_, nullptr);
}

void Event::set(TimelineValue completion, keel_status failure) {
  completion_ = completion;
  failure_ = failure;
  submitted_.store(true, std::memory_order_release);
}

void Event::set_open(std::shared_ptr<StreamLink> link) {
  link_ = std::move(link);
  submitted_.store(false, std::memory_order_release);
}

void Event::submit() const {
  if (is_submitted()) return;
  const std::lock_guard lock(link_->mutex);
  if (!is_submitted()) link_->stream->submit_batch();
}

keel_status Event::query() const {
  if (!is_submitted()) {
    // The device is still busy with the stream's work, or the stream is in a call: a later query
    // submits the batch.
    const std::unique_lock lock(link_->mutex, std::try_to_lock);
    if (!lock.owns_lock()) return KEEL_NOT_READY;
    if (!is_submitted() && !link_->stream->submit_if_dry()) return KEEL_NOT_READY;
  }
  const keel_status failed = failure();
  return failed != KEEL_OK ? failed : completion_.queue->query(completion_.value);
}

keel_status Event::wait(int64_t timeout_ns) const {
  submit();
  const keel_status failed = failure();
  return failed != KEEL_OK ? failed : completion_.queue->wait(completion_.value, timeout_ns);
}

keel_status Event::notify(keel_notify_fn fn, void* user) const {
  submit();
  if (const keel_status failed = failure(); failed != KEEL_OK) {
    fn(user, failed);
  } else {
    completion_.queue->notify(completion_.value, fn, user);
  }
  return KEEL_OK;
}

keel_status Event::read_ticks(uint64_t* out_ticks) const {
  const VkResult result = device_.functions().GetQueryPoolResults(
      device_.handle(), timestamp_, 0, 1, sizeof(*out_ticks), out_ticks, sizeof(*out_ticks),
      VK_QUERY_RESULT_64_BIT);
  if (result == VK_NOT_READY) return kit::fail(KEEL_NOT_READY, "event_elapsed: not done");
  return to_status(result, "vkGetQueryPoolResults");
}

keel_status Event::elapsed_since(const Event& start, uint64_t* out_nanoseconds) const {
  uint64_t begin = 0;
  uint64_t end = 0;
  keel_status status = device_.state();
  if (status == KEEL_OK) status = start.read_ticks(&begin);
  if (status == KEEL_OK) status = read_ticks(&end);
  if (status != KEEL_OK) return status;
  const PhysicalDevice& physical = device_.physical();
  const uint64_t ticks = (end - begin) & physical.timestamp_mask;  // the counter may wrap
  *out_nanoseconds = static_cast<uint64_t>(static_cast<double>(ticks) * physical.timestamp_period);
  return KEEL_OK;
}

}  // namespace keel::vulkan
