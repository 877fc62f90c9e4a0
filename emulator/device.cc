// SPDX-License-Identifier: Apache-2.0
#include "emulator/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "emulator/queue.h"

namespace keel::emulator {

Status Device::create(const DeviceOptions& options, std::shared_ptr<Device>* out_device) {
  std::string error;
  const DeviceRange* const range = DeviceRange::get(&error);
  if (range == nullptr) return {Code::kOutOfMemory, std::move(error)};
  out_device->reset(new Device(options, *range));
  return {};
}

Device::Device(const DeviceOptions& options, const DeviceRange& range)
    : options_(options),
      name_(fmt::format("emulated device {}", options.index)),
      memory_(std::make_unique<Memory>(range, std::min(options.memory_bytes, range.size()),
                                       options.shareable, options.address_offset)),
      faults_(options.faults, options.index) {}

Device::~Device() {
  close();
}

void Device::close() {
  std::shared_ptr<Queue> queue;
  {
    const std::lock_guard lock(mutex_);
    queue.swap(shared_queue_);
  }
  if (queue != nullptr) queue->stop();
}

Status Device::allocate(uint64_t size, Address* out_address) {
  Injection injection;
  Status status = count_call(CallKind::kAlloc, &injection);
  if (status.ok()) status = memory_->allocate(size, out_address);
  return status;
}

Status Device::allocate_pinned(uint64_t size, void** out_pointer) {
  Injection injection;
  Status status = count_call(CallKind::kAlloc, &injection);
  if (status.ok()) status = memory_->allocate_pinned(size, out_pointer);
  return status;
}

Status Device::alive() const {
  return is_lost() ? loss_ : Status();
}

void Device::lose(const std::string& why, Code cause) {
  Status loss(Code::kDeviceLost, fmt::format("{} is lost: {}", name_, why));
  {
    const std::lock_guard lock(mutex_);
    if (is_lost()) return;
    loss_ = std::move(loss);
    loss_cause_ = cause;
    lost_.store(true, std::memory_order_release);
  }
  ring_all();
}

void Device::release_stalls() {
  ++stall_generation_;
  ring_all();
}

Status Device::count_call(CallKind kind, Injection* out_injection) {
  Status status = alive();
  if (!status.ok()) return status;
  *out_injection = faults_.next(kind);
  const bool on_host = kind == CallKind::kAlloc || kind == CallKind::kStream;
  if (on_host && out_injection->lose) {
    lose(fmt::format("injected at {}", out_injection->call()));
    return alive();
  }
  if (!out_injection->refuse) return {};
  return {kind == CallKind::kAlloc ? Code::kOutOfMemory : Code::kUnavailable,
          fmt::format("{}: injected refusal of {}", name_, out_injection->call())};
}

Duration Device::duration_of(const Work& work) const {
  if (!is_paced()) return Duration(0);
  const Profile& profile = *options_.profile;
  double gb_per_s = profile.memory_gb_per_s;
  if (work.engine == EngineKind::kHostToDevice) gb_per_s = profile.host_to_device_gb_per_s;
  if (work.engine == EngineKind::kDeviceToHost) gb_per_s = profile.device_to_host_gb_per_s;
  if (work.engine == EngineKind::kPeer) gb_per_s = profile.peer_gb_per_s;
  const double moving = work.bytes / gb_per_s;  // bytes / (GB/s) = nanoseconds
  const double computing = work.flops == 0 ? 0 : work.flops / (profile.tflops_of(work.dtype) * 1e3);
  // At most a week, for absurd sizes and rates.
  return Duration(static_cast<int64_t>(std::min(std::max(moving, computing), 6e14)));
}

Duration Device::launch_latency() const {
  if (!is_paced()) return Duration(0);
  return Duration(static_cast<int64_t>(options_.profile->launch_latency_us * 1e3));
}

std::shared_ptr<Queue> Device::queue() {
  const std::lock_guard lock(mutex_);
  if (options_.single_queue && shared_queue_ != nullptr) return shared_queue_;
  const uint64_t seed = options_.seed * 1'000'003 + options_.index * 1009 + queues_++;
  auto queue = std::make_shared<Queue>(*this, seed);
  std::erase_if(notifiers_, [](const auto& notifier) { return notifier.expired(); });
  notifiers_.push_back(queue->notifier());
  if (options_.single_queue) shared_queue_ = queue;
  return queue;
}

void Device::ring_all() {
  const std::lock_guard lock(mutex_);
  for (const auto& weak : notifiers_) {
    if (const auto notifier = weak.lock()) notifier->ring();
  }
}

}  // namespace keel::emulator
