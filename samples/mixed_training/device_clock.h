// SPDX-License-Identifier: Apache-2.0
// The time that a device takes for the work of one stretch of a stream.
#ifndef KEEL_SAMPLES_MIXED_TRAINING_DEVICE_CLOCK_H_
#define KEEL_SAMPLES_MIXED_TRAINING_DEVICE_CLOCK_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <keel/keel.hpp>

namespace mixed_training {

// Uses two timing events on the device's own stream, so that neither the wait for slower devices in
// a later collective counts, nor other work of the host. A device without timing events (Kunlun's
// runtime has none) is timed by two host callbacks, which add the wake-up of the callbacks' thread,
// some 50 us.
class DeviceClock {
 public:
  explicit DeviceClock(keel::Device device)
      : has_timing_((device.info().capabilities & KEEL_CAPABILITY_TIMING) != 0),
        start_(has_timing_ ? uint32_t{KEEL_EVENT_TIMING} : 0),
        end_(has_timing_ ? uint32_t{KEEL_EVENT_TIMING} : 0) {}
  // Waits for the callbacks. Destroy the clock before its stream's device is shut down.
  ~DeviceClock();
  DeviceClock(const DeviceClock&) = delete;
  DeviceClock& operator=(const DeviceClock&) = delete;

  void start(const keel::Stream& stream) { mark(stream, start_, start_ns_); }
  void stop(const keel::Stream& stream) { mark(stream, end_, end_ns_); }
  // Between start() and stop(). Requires a synchronized stream.
  std::chrono::nanoseconds elapsed() const;

 private:
  void mark(const keel::Stream& stream, keel::Event& event, std::atomic<int64_t>& host_ns) const;

  const bool has_timing_;
  keel::Event start_;
  keel::Event end_;
  // Of the host's clock; kPending until the callback has run.
  static constexpr int64_t kPending = 0;
  std::atomic<int64_t> start_ns_{1};
  std::atomic<int64_t> end_ns_{1};
};

}  // namespace mixed_training

#endif  // KEEL_SAMPLES_MIXED_TRAINING_DEVICE_CLOCK_H_
