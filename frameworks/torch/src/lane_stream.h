// SPDX-License-Identifier: Apache-2.0
// The stream on which the operations of a lane run, ordered with PyTorch's streams.
#ifndef FRAMEWORKS_TORCH_SRC_LANE_STREAM_H_
#define FRAMEWORKS_TORCH_SRC_LANE_STREAM_H_

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <keel/keel.h>

#include <functional>
#include <optional>

namespace keel_torch {

// The Keel device behind |device|: that of the CPU, or of a keel device.
keel_device keel_device_of(c10::Device device);

// A stream of the CPU's device, whose tensors the host writes, or of a keel device, whose tensors
// the streams of PyTorch write. The caller serialises calls.
class LaneStream {
 public:
  // Throws if the stream cannot be created. Streams of a keel device are PyTorch's, which are
  // never destroyed: close() keeps such a stream for a later lane.
  explicit LaneStream(c10::Device device);
  ~LaneStream() { close(); }
  LaneStream(const LaneStream&) = delete;
  LaneStream& operator=(const LaneStream&) = delete;

  keel_stream handle() const { return handle_; }
  bool is_of_device() const { return stream_.has_value(); }

  // Makes later work on this stream run after the work that the calling thread's current stream of
  // the device holds. Does nothing for the CPU. Does not block. Throws if that stream has failed.
  void wait_for_caller();
  // Runs |work| with this stream as the calling thread's current stream of the device.
  void run(const std::function<void()>& work) const;
  // Makes this stream the calling thread's current stream of the device.
  void make_current() const;
  // Idempotent. A stream that is still busy, or cannot be recovered, is kept out of use.
  void close();

 private:
  keel_stream handle_{};
  std::optional<c10::Stream> stream_;  // none: of the CPU
  keel_event event_{};                 // of the caller's work; created on first use
};

}  // namespace keel_torch

#endif  // FRAMEWORKS_TORCH_SRC_LANE_STREAM_H_
