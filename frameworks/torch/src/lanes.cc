// SPDX-License-Identifier: Apache-2.0
#include "lanes.h"

#include <c10/util/Exception.h>

#include <utility>

namespace keel_torch {

using std::chrono::milliseconds;

Lanes::Lanes(c10::intrusive_ptr<c10d::Store> store, int rank, int size, milliseconds timeout)
    : store_(std::move(store)),
      rank_(rank),
      size_(size),
      agreement_(std::make_shared<LaneAgreement>(store_, rank, size)),
      cpu_(std::make_shared<Lane>(join(*store_, "keel/collectives", c10::kCPU, rank, size, timeout),
                                  c10::kCPU, rank, timeout, agreement_)),
      timeout_(timeout) {}

std::shared_ptr<Lane> Lanes::device_lane() const {
  const std::lock_guard lock(mutex_);
  return device_lane_;
}

c10::Device Lanes::place(c10::Device device, const char* name) {
  if (device.is_cpu()) return device;
  // Collectives of one group are called in one order: a second thread waits for the join.
  const std::lock_guard joining(joining_mutex_);
  milliseconds timeout{};
  {
    const std::lock_guard lock(mutex_);
    if (goes_through_cpu_) return c10::kCPU;
    TORCH_CHECK(!device_ || *device_ == device, "keel: ", name, ": a tensor of ", device,
                "; this rank's device in the process group is ", *device_,
                ": use a group for each device");
    if (device_lane_) return device;
    if (is_over_) C10_THROW_ERROR(DistBackendError, "keel: the process group has ended");
    timeout = timeout_;
  }
  if (agreement_->all_have_devices(cpu_->sequence(), timeout)) {
    join_devices(device, timeout);
    return device;
  }
  const std::lock_guard lock(mutex_);
  goes_through_cpu_ = true;
  return c10::kCPU;
}

void Lanes::join_devices(c10::Device device, milliseconds timeout) {
  auto lane = std::make_shared<Lane>(join(*store_, "keel/device", device, rank_, size_, timeout),
                                     device, rank_, timeout, nullptr);
  bool is_over = false;
  {
    const std::lock_guard lock(mutex_);
    device_ = device;
    device_lane_ = lane;
    is_over = is_over_;
    lane->set_timeout(timeout_);
  }
  if (is_over) lane->abort();  // the group ended during the join
}

Lane& Lanes::of(c10::Device place) {
  if (place.is_cpu()) return *cpu_;
  const std::lock_guard lock(mutex_);
  return *device_lane_;
}

bool Lanes::goes_through_cpu() const {
  const std::lock_guard lock(mutex_);
  return goes_through_cpu_;
}

void Lanes::set_timeout(milliseconds timeout) {
  cpu_->set_timeout(timeout);
  const std::lock_guard lock(mutex_);
  timeout_ = timeout;
  if (device_lane_) device_lane_->set_timeout(timeout);
}

uint64_t Lanes::sequence() const {
  const std::shared_ptr<Lane> lane = device_lane();
  return cpu_->sequence() + (lane ? lane->sequence() : 0);
}

void Lanes::abort() {
  std::shared_ptr<Lane> lane;
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    lane = device_lane_;
  }
  cpu_->abort();
  if (lane) lane->abort();
}

void Lanes::close() {
  std::shared_ptr<Lane> lane;
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    lane = device_lane_;
  }
  if (lane) lane->close();
  cpu_->close();
}

}  // namespace keel_torch
