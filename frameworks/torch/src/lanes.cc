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

Lane* Lanes::device_lane() const {
  Lane* const lane = for_keel_.load(std::memory_order_acquire);
  return lane == cpu_.get() ? nullptr : lane;
}

Lane& Lanes::of(c10::Device device, const char* name) {
  if (device.is_cpu()) return *cpu_;
  Lane* lane = for_keel_.load(std::memory_order_acquire);
  if (lane == nullptr) lane = &agree(device);
  TORCH_CHECK(lane == cpu_.get() || lane->device() == device, "keel: ", name, ": a tensor of ",
              device, "; this rank's device in the process group is ", lane->device(),
              ": use a group for each device");
  return *lane;
}

Lane& Lanes::agree(c10::Device device) {
  // Collectives of one group are called in one order: a second thread waits for the join.
  const std::lock_guard joining(joining_mutex_);
  if (Lane* const lane = for_keel_.load(std::memory_order_acquire)) return *lane;
  milliseconds timeout{};
  {
    const std::lock_guard lock(mutex_);
    if (is_over_) C10_THROW_ERROR(DistBackendError, "keel: the process group has ended");
    timeout = timeout_;
  }
  // An abort of any rank, and the group's end here, end the communicator of the CPUs.
  const auto check = [this] { cpu_->check_alive("creating the communicator of keel devices"); };
  std::shared_ptr<Lane> lane = cpu_;
  if (agreement_->all_have_devices(cpu_->sequence(), timeout, check)) {
    lane = join_devices(device, timeout, check);
  }
  for_keel_.store(lane.get(), std::memory_order_release);
  return *lane;
}

std::shared_ptr<Lane> Lanes::join_devices(c10::Device device, milliseconds timeout,
                                          const std::function<void()>& check) {
  const keel_comm comm = join(*store_, "keel/device", device, rank_, size_, timeout, check);
  auto lane = std::make_shared<Lane>(comm, device, rank_, timeout, nullptr);
  bool is_over = false;
  {
    const std::lock_guard lock(mutex_);
    device_lane_ = lane;
    is_over = is_over_;
    lane->set_timeout(timeout_);
  }
  if (is_over) lane->abort();  // the group ended during the join
  return lane;
}

void Lanes::set_timeout(milliseconds timeout) {
  cpu_->set_timeout(timeout);
  const std::lock_guard lock(mutex_);
  timeout_ = timeout;
  if (device_lane_) device_lane_->set_timeout(timeout);
}

uint64_t Lanes::sequence() const {
  const Lane* const lane = device_lane();
  return cpu_->sequence() + (lane != nullptr ? lane->sequence() : 0);
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
