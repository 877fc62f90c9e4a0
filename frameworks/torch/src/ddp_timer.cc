// SPDX-License-Identifier: Apache-2.0
// Times of DistributedDataParallel's logger for models on a keel device. PyTorch has timers for the
// CPU and CUDA, and warns in every process where the device has none.
#include <optional>
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include "device/devices.h"

namespace keel_torch {

namespace {

// Times on the host's clock: when operators were enqueued, and when collectives were waited for.
class DeviceTimer final : public c10d::Timer {
 public:
  explicit DeviceTimer(c10::Device /*device*/) {}

  std::optional<int64_t> measureDifference(Event start, Event end) override {
    const int64_t from = getTimeRef(start);
    const int64_t to = getTimeRef(end);
    // The backward pass may record a first event of a step that never got to the last.
    if (from == c10d::kUnsetTime || to == c10d::kUnsetTime || to < from) return std::nullopt;
    return to - from;
  }
};

}  // namespace

}  // namespace keel_torch

namespace c10d {

C10_REGISTER_TYPED_CLASS(TimerRegistry, keel_torch::device::kType, keel_torch::DeviceTimer)

}  // namespace c10d
