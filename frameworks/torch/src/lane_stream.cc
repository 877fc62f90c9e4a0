// SPDX-License-Identifier: Apache-2.0
#include "lane_stream.h"

#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "device/devices.h"
#include "runtime.h"

namespace keel_torch {

namespace {

// The time that close() gives a stream for the work of a failed operation.
constexpr int64_t kRecovery = 2'000'000'000;

// Streams of closed lanes. Never destroyed: lanes may outlive static objects.
struct Spare {
  std::mutex mutex;
  std::vector<c10::Stream> streams;
};
Spare& spare() {
  static auto* const streams = new Spare;
  return *streams;
}

c10::Stream take(c10::DeviceIndex index) {
  {
    const std::lock_guard lock(spare().mutex);
    std::vector<c10::Stream>& streams = spare().streams;
    const auto found = std::find_if(streams.begin(), streams.end(), [&](const c10::Stream& stream) {
      return stream.device_index() == index;
    });
    if (found != streams.end()) {
      const c10::Stream stream = *found;
      streams.erase(found);
      return stream;
    }
  }
  return device::new_stream(index, 0);
}

}  // namespace

keel_device keel_device_of(c10::Device device) {
  return device.type() == device::kType ? device::handle(device.index()) : Runtime::get().device();
}

LaneStream::LaneStream(c10::Device device) {
  if (device.type() == device::kType) {
    stream_ = take(device.index());
    handle_ = device::handle(*stream_);
  } else {
    check(keel_stream_create(Runtime::get().device(), 0, &handle_), "creating a stream");
  }
}

void LaneStream::wait_for_caller() {
  if (!stream_) return;
  if (event_.id == 0) check(keel_event_create(0, &event_), "creating an event");
  check(keel_event_record(event_, device::stream_of(stream_->device_index())),
        "recording an event of the caller's stream");
  check(keel_stream_wait_event(handle_, event_), "waiting for the caller's stream");
}

void LaneStream::run(const std::function<void()>& work) const {
  const c10::OptionalStreamGuard guard(stream_);
  work();
}

void LaneStream::make_current() const {
  if (stream_) (void)device::exchange_stream(*stream_);
}

void LaneStream::close() {
  const keel_stream handle = std::exchange(handle_, {});
  // A forked process has neither the stream nor the threads that served it.
  if (handle.id == 0 || Runtime::get().is_forked()) return;
  if (event_.id != 0) (void)keel_event_destroy(std::exchange(event_, {}));
  if (!stream_) {
    (void)keel_stream_destroy(handle);
    return;
  }
  const keel_status status = keel_stream_query(handle);
  if (status == KEEL_NOT_READY) return;
  if (status != KEEL_OK) {
    (void)keel_stream_recover(handle, kRecovery);
    if (keel_stream_query(handle) != KEEL_OK) return;
  }
  const std::lock_guard lock(spare().mutex);
  spare().streams.push_back(*stream_);
}

}  // namespace keel_torch
