// SPDX-License-Identifier: Apache-2.0
#include "core/gate.h"

#include "core/observer.h"
#include "core/stream.h"

namespace keel {

Gate::Gate(const char* name, Ref<GateOwner> keeper)
    : name_(name),
      serial_(observers::next_serial()),
      is_kept_(keeper),
      keeper_(std::move(keeper)) {}

Gate::~Gate() {
  observers::tell([&](Observer& observer) { observer.forgotten(serial_); });
}

bool Gate::open(const Status& status, WakeList& wake) {
  Ref<GateOwner> keeper;  // destroyed after the lock is released
  std::lock_guard lock(mutex_);
  if (open_) return false;
  keeper = std::move(keeper_);
  observers::tell([&](Observer& observer) { observer.gate_opened(serial_); });
  status_ = status;
  open_.store(true, std::memory_order_release);
  opened_.notify_all();
  wake.splice(wake.end(), waiters_);
  return true;
}

void Gate::help(const Deadline& deadline) {
  Ref<GateOwner> keeper;
  {
    std::lock_guard lock(mutex_);
    keeper = keeper_;
  }
  if (keeper) keeper->help(*this, deadline);
}

int64_t Gate::longest_ns() {
  Ref<GateOwner> keeper;
  {
    std::lock_guard lock(mutex_);
    keeper = keeper_;
  }
  return keeper ? keeper->longest_ns() : 0;
}

bool Gate::wait(const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  return deadline.wait(opened_, lock, [this] { return is_open(); });
}

bool Gate::passed(Ref<Stream> stream, Status* out_status) {
  std::lock_guard lock(mutex_);
  if (open_) {
    *out_status = status_;
  } else if (stream) {
    waiters_.push_back(std::move(stream));
  }
  return open_;
}

}  // namespace keel
