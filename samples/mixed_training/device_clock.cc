// SPDX-License-Identifier: Apache-2.0
#include "samples/mixed_training/device_clock.h"

namespace mixed_training {
namespace {

void read_clock(void* user, keel_status /*status*/) {
  auto& host_ns = *static_cast<std::atomic<int64_t>*>(user);
  host_ns = std::chrono::steady_clock::now().time_since_epoch().count();
  host_ns.notify_all();
}

}  // namespace

DeviceClock::~DeviceClock() {
  start_ns_.wait(kPending);
  end_ns_.wait(kPending);
}

void DeviceClock::mark(const keel::Stream& stream, keel::Event& event,
                       std::atomic<int64_t>& host_ns) const {
  if (has_timing_) {
    event.record(stream);
    return;
  }
  host_ns = kPending;
  const keel_status status = keel_stream_on_done(stream.get(), read_clock, &host_ns);
  if (status != KEEL_OK) host_ns = 1;
  keel::check(status);
}

std::chrono::nanoseconds DeviceClock::elapsed() const {
  if (has_timing_) return end_.elapsed_since(start_);
  start_ns_.wait(kPending);
  end_ns_.wait(kPending);
  return std::chrono::nanoseconds(end_ns_ - start_ns_);
}

}  // namespace mixed_training
