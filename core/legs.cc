// SPDX-License-Identifier: Apache-2.0
#include "core/legs.h"

#include <new>
#include <utility>

#include "core/device.h"
#include "core/drain.h"
#include "core/stream.h"

namespace keel {

Ref<Stream> Legs::find_locked(const Device& device) const {
  for (const Ref<Stream>& leg : legs_) {
    if (&leg->device() == &device) return leg;
  }
  return {};
}

bool Legs::keep_locked(const Ref<Stream>& leg) {
  try {
    legs_.push_back(leg);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

Status Legs::take(Device& device, Ref<Stream>* out_leg) {
  Ref<Stream> former;
  {
    std::lock_guard lock(mutex_);
    former = find_locked(device);
  }
  // Without the lock: a recovery may advance other streams.
  if (former &&
      (!former->has_failed() || former->recover(Deadline::after(kQuickRecoveryNs)).ok())) {
    *out_leg = std::move(former);
    return {};
  }
  Ref<Stream> leg;
  KEEL_RETURN_IF_ERROR(device.lease_stream(&leg));
  bool refused = false;
  bool kept = false;
  {
    std::lock_guard lock(mutex_);
    // Another thread may also have found the stream useless, and may have returned it already.
    if (std::erase(legs_, former) == 0) former = nullptr;
    refused = refuses_;
    // If a second thread arrives here at the same time, there are two helper streams.
    kept = !refused && keep_locked(leg);
  }
  if (former) device.return_stream(std::move(former));
  if (!kept) {
    device.return_stream(std::move(leg));
    return refused ? failure(KEEL_CANCELLED, "{}: the stream was destroyed", device.name())
                   : Status::no_memory();
  }
  *out_leg = std::move(leg);
  return {};
}

uint64_t Legs::enqueued() const {
  std::lock_guard lock(mutex_);
  uint64_t sum = 0;
  for (const Ref<Stream>& leg : legs_) sum += leg->timeline()->enqueued();
  return sum;
}

Status Legs::drain(const Deadline& deadline, uint64_t* out_enqueued) {
  std::vector<Ref<Stream>> legs;
  {
    std::lock_guard lock(mutex_);
    legs = legs_;
  }
  uint64_t enqueued = 0;
  for (const Ref<Stream>& leg : legs) enqueued += leg->timeline()->enqueued();
  if (out_enqueued != nullptr) *out_enqueued = enqueued;
  for (const Ref<Stream>& leg : legs) {
    const Status drained = leg->drain_leg(deadline);
    if (may_still_run(drained)) return drained;
  }
  return {};
}

void Legs::refuse() {
  std::lock_guard lock(mutex_);
  refuses_ = true;
}

void Legs::give_back() {
  std::vector<Ref<Stream>> legs;
  {
    std::lock_guard lock(mutex_);
    legs.swap(legs_);
  }
  for (Ref<Stream>& leg : legs) {
    Device& device = leg->device();
    device.return_stream(std::move(leg));
  }
}

void Legs::abandon() {
  // Destroyed after the lock is released: a helper stream may hold the last reference to another
  // stream.
  std::vector<Ref<Stream>> legs;
  std::lock_guard lock(mutex_);
  legs.swap(legs_);
}

}  // namespace keel
