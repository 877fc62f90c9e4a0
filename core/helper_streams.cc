// SPDX-License-Identifier: Apache-2.0
#include "core/helper_streams.h"

#include <new>
#include <utility>

#include "core/device.h"
#include "core/drain.h"
#include "core/stream.h"

namespace keel {

Ref<Stream> HelperStreams::find_locked(const Device& device) const {
  for (const Ref<Stream>& stream : helper_streams_) {
    if (&stream->device() == &device) return stream;
  }
  return {};
}

bool HelperStreams::keep_locked(const Ref<Stream>& stream) {
  try {
    helper_streams_.push_back(stream);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

Status HelperStreams::take(Device& device, Ref<Stream>* out_stream) {
  Ref<Stream> former;
  {
    std::lock_guard lock(mutex_);
    former = find_locked(device);
  }
  // Without the lock: a recovery may advance other streams.
  if (former &&
      (!former->has_failed() || former->recover(Deadline::after(kQuickRecoveryNs)).ok())) {
    *out_stream = std::move(former);
    return {};
  }
  Ref<Stream> stream;
  KEEL_RETURN_IF_ERROR(device.lease_stream(&stream));
  bool refused = false;
  bool kept = false;
  {
    std::lock_guard lock(mutex_);
    // Another thread may also have found the stream useless, and may have returned it already.
    if (std::erase(helper_streams_, former) == 0) former = nullptr;
    refused = refuses_;
    // If a second thread arrives here at the same time, there are two helper streams.
    kept = !refused && keep_locked(stream);
  }
  if (former) device.return_stream(std::move(former));
  if (!kept) {
    device.return_stream(std::move(stream));
    return refused ? failure(KEEL_CANCELLED, "{}: the stream was destroyed", device.name())
                   : Status::no_memory();
  }
  *out_stream = std::move(stream);
  return {};
}

uint64_t HelperStreams::enqueued() const {
  std::lock_guard lock(mutex_);
  uint64_t sum = 0;
  for (const Ref<Stream>& stream : helper_streams_) sum += stream->timeline()->enqueued();
  return sum;
}

Status HelperStreams::drain(const Deadline& deadline, uint64_t* out_enqueued) {
  std::vector<Ref<Stream>> helper_streams;
  {
    std::lock_guard lock(mutex_);
    helper_streams = helper_streams_;
  }
  uint64_t enqueued = 0;
  for (const Ref<Stream>& stream : helper_streams) enqueued += stream->timeline()->enqueued();
  if (out_enqueued != nullptr) *out_enqueued = enqueued;
  for (const Ref<Stream>& stream : helper_streams) {
    const Status drained = stream->drain_helper(deadline);
    if (may_still_run(drained)) return drained;
  }
  return {};
}

void HelperStreams::refuse() {
  std::lock_guard lock(mutex_);
  refuses_ = true;
}

void HelperStreams::give_back() {
  std::vector<Ref<Stream>> helper_streams;
  {
    std::lock_guard lock(mutex_);
    helper_streams.swap(helper_streams_);
  }
  for (Ref<Stream>& stream : helper_streams) {
    Device& device = stream->device();
    device.return_stream(std::move(stream));
  }
}

void HelperStreams::abandon() {
  // Destroyed after the lock is released: a helper stream may hold the last reference to another
  // stream.
  std::vector<Ref<Stream>> helper_streams;
  std::lock_guard lock(mutex_);
  helper_streams.swap(helper_streams_);
}

}  // namespace keel
